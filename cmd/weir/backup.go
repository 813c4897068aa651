package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/cli"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/journal/backup"
)

func newBackup(w *cli.World) *cobra.Command {
	server, force := "http://127.0.0.1:8080", false
	var l cli.Login
	cmd := &cobra.Command{
		Use:   "backup FILE|-",
		Short: "Write all counts of a running server to a file",
		Long: `Write all counts of a running server to one file, or with - to the output.

The server goes on counting meanwhile; every hit that it had counted before is
in the file. The file is checked as it arrives, and appears under its name only
when it is whole. A file that is there is not written over without --force.
'weir restore' makes a data directory of it.`,
		Example: "  weir backup weir.backup\n  weir backup - | ssh backups 'cat >weir.backup'",
		Args:    cli.Args("FILE|-"),
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			if _, err := os.Lstat(args[0]); err == nil && args[0] != "-" && !force {
				return fmt.Errorf("%s exists already: name another file, or overwrite it with --force", args[0])
			}
			body, err := openBackup(cmd.Context(), &l, server)
			if err != nil {
				return err
			}
			defer body.Close()
			if args[0] == "-" {
				_, err := saveBackup(body, w.Stdout)
				return err
			}
			info, err := saveBackupFile(body, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(w.Stdout, "%s: %s, taken at %s\n", args[0], units.FormatSize(info.Bytes), cli.FormatMoment(info.Taken))
			return nil
		}),
	}
	cmd.Flags().StringVar(&server, "server", server, "address of the server")
	l.Define(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "write over a file that is there")
	return cmd
}

// openBackup asks a server for a backup, of several nodes the first: each has all counts. It has no time
// limit: the user has one.
func openBackup(ctx context.Context, l *cli.Login, server string) (io.ReadCloser, error) {
	return openStream(ctx, l, server, "/v1/backup", nil)
}

// openStream asks a server for something that may be large, of several nodes the first.
func openStream(ctx context.Context, l *cli.Login, server, path string, query url.Values) (io.ReadCloser, error) {
	server, _, _ = strings.Cut(server, ",")
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	address, err := url.JoinPath(server, path)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--server: %w", err))
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--server: %w", err))
	}
	resp, err := l.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // what there is of it
		var problem client.Error                                // whose fields have the names of a problem document
		if json.Unmarshal(text, &problem) == nil && problem.Code != "" {
			return nil, &problem
		}
		return nil, fmt.Errorf("the server answered %s: %s", resp.Status, text)
	}
	return resp.Body, nil
}

// saveBackup copies a backup and checks it on the way.
func saveBackup(from io.Reader, to io.Writer) (backup.Info, error) {
	return backup.Scan(io.TeeReader(from, to))
}

func saveBackupFile(from io.Reader, path string) (info backup.Info, err error) {
	file, err := os.OpenFile(path+".part", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return info, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if info, err = saveBackup(from, file); err != nil {
		return info, errors.Join(err, file.Close())
	}
	if err := file.Sync(); err != nil {
		return info, errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return info, err
	}
	return info, os.Rename(file.Name(), path)
}
