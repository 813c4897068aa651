package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/cmd/weir/internal/cli"
)

func newExport(w *cli.World) *cobra.Command {
	server, force := "http://127.0.0.1:8080", false
	var l cli.Login
	q := map[string]*string{"unit": new(string), "format": new(string), "prefix": new(string), "from": new(string), "to": new(string)}
	cmd := &cobra.Command{
		Use:   "export FILE|-",
		Short: "Write history to a file: the hits of keys per day or hour",
		Long: `Write history to a file, or with - to the output: the hits of keys in each day of UTC,
or each hour, as CSV or Parquet. See docs/history.md.

The columns are key, start, hits and doubt: the true number is hits to hits + doubt, and
doubt is 0 but for what was filled in from snapshots. Days of weir's own tables come first,
by key; then those that are not summed up yet, by day. A file that is there is not
written over without --force.`,
		Example: "  weir export --from -30d --format parquet days.parquet\n  weir export --unit hour --prefix url: --from 2026-01-31T00:00:00Z --to 2026-02-01T00:00:00Z -",
		Args:    cli.Args("FILE|-"),
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, _ cli.Sources) error {
			if _, err := os.Lstat(args[0]); err == nil && args[0] != "-" && !force {
				return fmt.Errorf("%s exists already: name another file, or overwrite it with --force", args[0])
			}
			if *q["format"] == "" && strings.HasSuffix(args[0], ".parquet") {
				*q["format"] = "parquet"
			}
			values := url.Values{}
			for name, value := range q {
				if *value != "" {
					values.Set(name, *value)
				}
			}
			body, err := openStream(cmd.Context(), &l, server, "/v1/export", values)
			if err != nil {
				return err
			}
			defer body.Close()
			if args[0] == "-" {
				_, err := io.Copy(w.Stdout, body)
				return err
			}
			return saveFile(body, args[0])
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&server, "server", server, "address of the server")
	l.Define(cmd)
	cli.Choice(cmd, q["unit"], "unit", "how long each span is (default day)", "day", "hour")
	cli.Choice(cmd, q["format"], "format", "of the file (default parquet of a FILE that ends in .parquet, else csv)", "csv", "parquet")
	flags.StringVar(q["prefix"], "prefix", "", "only keys that begin with this")
	flags.StringVar(q["from"], "from", "", "the first day, by a moment in it: RFC 3339, Unix seconds, or a duration before now such as -365d (default the beginning)")
	flags.StringVar(q["to"], "to", "", "the last day, by a moment after it begins (default now)")
	flags.BoolVar(&force, "force", false, "write over a file that is there")
	return cmd
}

// saveFile writes a file that appears under its name when it is whole.
func saveFile(from io.Reader, path string) (err error) {
	file, err := os.OpenFile(path+".part", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if _, err := io.Copy(file, from); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
