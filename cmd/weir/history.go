package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	_ "time/tzdata" // zones of days in history, wherever this binary runs

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/units"
)

// readHistory reads what the flags of history say together.
func (f *serveFlags) readHistory(from cli.Sources) error {
	h := &f.node.History
	if f.node.Ephemeral || f.demo {
		h.On = false
	}
	h.Keep = nil
	seen := map[string]bool{}
	for _, text := range f.historyKeep {
		k, err := parseKeep(text)
		if err == nil && seen[k.Prefix] {
			err = fmt.Errorf("%q: there are two rules for this prefix", text)
		}
		if err != nil {
			return cli.Usage(fmt.Errorf("%s: %w", from["history-keep"], err))
		}
		seen[k.Prefix] = true
		h.Keep = append(h.Keep, k)
	}
	if !seen[""] {
		h.Keep = append(h.Keep, history.DefaultKeep()...)
	}
	return nil
}

// parseKeep reads [PREFIX=]HOURS/DAYS.
func parseKeep(text string) (k store.Keep, err error) {
	ages := text
	if i := strings.LastIndexByte(text, '='); i >= 0 {
		k.Prefix, ages = text[:i], text[i+1:]
	}
	hours, days, ok := strings.Cut(ages, "/")
	if !ok {
		return k, fmt.Errorf("%q: write HOURS/DAYS such as 400d/3650d, or PREFIX=HOURS/DAYS", text)
	}
	if k.Slots, err = units.ParseDuration(hours); err != nil {
		return k, err
	}
	if k.Days, err = units.ParseDuration(days); err != nil {
		return k, err
	}
	const least = 48 * time.Hour // a day is summed up when it is over
	if k.Slots < least || k.Days < k.Slots {
		return k, fmt.Errorf("%q: hours are kept for at least 2d, and days for at least as long as hours", text)
	}
	return k, nil
}

func newExport(w *cli.World) *cobra.Command {
	server, force := "http://127.0.0.1:8080", false
	var l cli.Login
	var q client.ExportQuery
	cmd := &cobra.Command{
		Use:   "export FILE|-",
		Short: "Write history to a file: the hits of keys per day or hour",
		Long: `Write history to a file, or with - to standard output: the hits of keys in each UTC
day or hour, as CSV. See docs/history.md.

The columns are key, start, hits and doubt: the true number is between hits and
hits + doubt. doubt is 0 except for hits that were filled in from snapshots. For sampled
StatsD lines, hits is what was seen, and doubt is 18446744073709551615: no upper bound.
Summed days come first, by key; then days that are not summed yet. An existing file is
not overwritten without --force.`,
		Example: "  weir export --from -30d days.csv\n  weir export --unit hour --prefix url: --from 2026-01-31T00:00:00Z --to 2026-02-01T00:00:00Z -",
		Args:    cli.Args("FILE|-"),
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			if strings.HasSuffix(args[0], ".parquet") {
				return cli.Usage(fmt.Errorf("%s: weir export writes CSV: name a file such as days.csv", args[0]))
			}
			if err := checkNew(args[0], force); err != nil {
				return err
			}
			c, err := l.Client(server, "Server", from, client.Options{})
			if err != nil {
				return err
			}
			body, missing, err := c.Export(cmd.Context(), q)
			if err != nil {
				return err
			}
			warnMissing(w, missing)
			defer body.Close()
			return saveFile(w, args[0], func(to io.Writer) error {
				_, err := io.Copy(to, body)
				return err
			})
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&server, "server", server, "address of the server")
	l.Define(cmd)
	cli.Choice(cmd, &q.Unit, "unit", "how long each span is (default day)", "day", "hour")
	flags.StringVar(&q.Prefix, "prefix", "", "only keys with this prefix")
	flags.StringVar(&q.From, "from", "", "a time in the first day: RFC 3339, Unix seconds, or a duration before now such as -365d (default the beginning)")
	flags.StringVar(&q.To, "to", "", "a time in the last day (default now)")
	flags.BoolVar(&force, "force", false, "overwrite an existing file")
	return cmd
}

// warnMissing prints the times of which history may lack hits, if there are any.
func warnMissing(w *cli.World, times string) {
	if times != "" {
		fmt.Fprintf(w.Stderr, "incomplete: hits of %s may be missing\n", times)
	}
}

// checkNew fails if a file is there that was not to be replaced.
func checkNew(path string, force bool) error {
	if _, err := os.Lstat(path); err == nil && path != "-" && !force {
		return fmt.Errorf("%s exists already: name another file, or overwrite it with --force", path)
	}
	return nil
}

// openFile opens a file, or with - standard input.
func openFile(w *cli.World, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(w.Stdin), nil
	}
	return os.Open(path)
}

// saveFile has write write a file, which has its name once it is whole and on disk, or with - to standard output.
func saveFile(w *cli.World, path string, write func(io.Writer) error) (err error) {
	if path == "-" {
		return write(w.Stdout)
	}
	file, err := os.OpenFile(path+".part", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := write(file); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
