package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/archive"
	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/units"
)

func newBackup(w *cli.World) *cobra.Command {
	server, force := "http://127.0.0.1:8080", false
	var l cli.Login
	cmd := &cobra.Command{
		Use:   "backup FILE|-",
		Short: "Write all counts of a running server to a file",
		Long: `Write all counts of a running server to a file, or with - to standard output.

The server keeps counting; the file contains every hit that was counted before.
It is verified while it arrives, and gets its name only when it is complete. An
existing file is not overwritten without --force. 'weir restore' creates a data
directory from it.`,
		Example: "  weir backup weir.backup\n  weir backup - | ssh backups 'cat >weir.backup'",
		Args:    cli.Args("FILE|-"),
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			if err := checkNew(args[0], force); err != nil {
				return err
			}
			c, err := l.Client(server, "Server", from, client.Options{})
			if err != nil {
				return err
			}
			body, err := c.Backup(cmd.Context())
			if err != nil {
				return err
			}
			defer body.Close()
			var info backup.Info
			checked := func(to io.Writer) (err error) {
				info, err = backup.Scan(io.TeeReader(body, to))
				return err
			}
			if err := saveFile(w, args[0], checked); err != nil || args[0] == "-" {
				return err
			}
			fmt.Fprintf(w.Stdout, "%s: %s, taken at %s\n", args[0], units.FormatSize(info.Bytes), cli.FormatMoment(info.Taken))
			return nil
		}),
	}
	cmd.Flags().StringVar(&server, "server", server, "address of the server")
	l.Define(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	cmd.AddCommand(newBackupList(w))
	return cmd
}

const fromHelp = "place of backups, as in weir serve --backup-to: file:/directory or s3://bucket/prefix"

// openPlace opens the place of --from. A variable WEIR_FROM has topics, for weir serve.
func openPlace(from string, given cli.Sources) (*archive.Place, error) {
	if given["from"] != "--from" {
		return nil, cli.Usage(errors.New("name the place of the backups with --from, such as file:/var/backups/weir"))
	}
	p, err := archive.OpenPlace(from, true)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--from %s: %w", from, err))
	}
	return p, nil
}

func newBackupList(w *cli.World) *cobra.Command {
	var r cli.Remote // for print alone
	from := ""
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the backups that a server made by itself",
		Long:    "List the backups that 'weir serve --backup-to' made, the newest last.",
		Example: "  weir backup list --from file:/var/backups/weir\n  weir backup list --from 's3://bucket/weir?endpoint=https://minio:9000'",
		RunE: cli.Work(w, func(cmd *cobra.Command, _ []string, given cli.Sources) error {
			p, err := openPlace(from, given)
			if err != nil {
				return err
			}
			list, err := p.List(cmd.Context())
			if err != nil {
				return err
			}
			return r.Print(w.Stdout, map[string]any{"backups": append([]archive.Backup{}, list...)}, func(t *cli.Table) {
				t.Row("NAME", "TAKEN", "SIZE", "JOURNAL")
				for _, b := range list {
					t.Row(b.Name, cli.TimeText(b.Taken), units.FormatSize(b.Bytes), b.Journal)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", fromHelp)
	cmd.Flags().BoolVar(&r.JSON, "json", false, "print JSON")
	return cmd
}

// openBackup opens the backup that weir restore names: a file, or one of a place, by default its newest.
func openBackup(ctx context.Context, w *cli.World, args []string, from string, given cli.Sources) (io.ReadCloser, string, error) {
	if given["from"] != "--from" {
		if len(args) == 0 {
			return nil, "", cli.Usage(errors.New("name a backup: a file, - or --from"))
		}
		file, err := openFile(w, args[0])
		return file, args[0], err
	}
	p, err := openPlace(from, given)
	if err != nil {
		return nil, "", err
	}
	if len(args) == 0 {
		list, err := p.List(ctx)
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("%s has no backup", p)
		}
		if err != nil {
			return nil, "", err
		}
		newest := list[len(list)-1]
		if slices.ContainsFunc(list, func(b archive.Backup) bool { return b.Journal != newest.Journal }) {
			return nil, "", fmt.Errorf("%s has backups of several servers, or of one before and after a restore; the newest is %s: choose a NAME of 'weir backup list'", p, newest.Name)
		}
		args = []string{newest.Name}
	}
	file, err := p.Open(ctx, args[0])
	return file, args[0], err
}

func newRestore(w *cli.World) *cobra.Command {
	dir, server, mode, place, identity := defaultData, "", "merge", "", ""
	var l cli.Login
	cmd := &cobra.Command{
		Use:   "restore [FILE|-|NAME]",
		Short: "Create a data directory from a backup, or restore it into a running server",
		Long: `Create a data directory from a backup: a file of 'weir backup', or - for standard
input.

The directory must be empty or not exist. The whole backup is verified before it is
used; a damaged or incomplete one is refused and leaves nothing behind.

With --server it is restored into a running server or cluster: --mode merge adds its
hits to the counts, --mode replace replaces the counts. An interrupted merge can be
repeated: the same backup counts once.

With --from it is a backup that 'weir serve --backup-to' made: the one with a NAME of
'weir backup list', or the newest one if all are of one server.`,
		Example: "  weir restore weir.backup --data /var/lib/weir\n  weir restore --from file:/var/backups/weir --data /var/lib/weir\n  weir restore weir.backup --server 10.0.0.1:8080 --mode merge",
		Args:    cli.Args("[FILE|-|NAME]"),
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, given cli.Sources) error {
			into, err := intoServer(given)
			if err != nil {
				return err
			}
			file, name, err := openBackup(cmd.Context(), w, args, place, given)
			if err != nil {
				return err
			}
			defer file.Close()
			from, err := archive.Decrypt(file, identity)
			if err != nil {
				return fmt.Errorf("restore %s: %w", name, err)
			}
			if into {
				return restoreInto(cmd.Context(), w, &l, given, from, name, server, api.RestoreMode(mode))
			}
			info, err := durable.Restore(cmd.Context(), from, dir, func(ctx context.Context, file string, j durable.Messages, taken time.Time) error {
				return history.Restored(ctx, file, j, taken)
			})
			if err != nil {
				return fmt.Errorf("restore %s: %w", name, err)
			}
			past := map[bool]string{true: "with history", false: "without history"}[info.History]
			fmt.Fprintf(w.Stdout, "%s: restored %s, a backup of %s, taken at %s, with a retention of %s, %s\n",
				dir, name, units.FormatSize(info.Bytes), cli.FormatMoment(info.Taken), cli.WindowText(info.RetentionS), past)
			return nil
		}),
	}
	cmd.Flags().StringVar(&dir, "data", dir, "data directory to create")
	cmd.Flags().StringVar(&place, "from", "", fromHelp)
	cmd.Flags().StringVar(&identity, "identity", "", "`file` with the identity of age that decrypts the backup")
	cmd.Flags().StringVar(&server, "server", "", "address of a running server to restore into, instead of --data")
	l.Define(cmd)
	cli.Choice(cmd, &mode, "mode", "with --server: add the backup to the counts, or replace them", "merge", "replace")
	return cmd
}

// intoServer reports whether a backup is for a server that runs, and not for a directory. The command
// line goes before the environment, which may name both: then it does not say which is meant.
func intoServer(given cli.Sources) (bool, error) {
	server, data := given["server"], given["data"]
	switch {
	case server == "" || data == "":
		return server != "", nil
	case server == "--server" && data != "--data":
		return true, nil
	case data == "--data" && server != "--server":
		return false, nil
	}
	return false, cli.Usage(errors.New(server + " and " + data + ": choose one: a server that runs, or a directory to make"))
}

// restoreInto restores a backup into a server that runs.
func restoreInto(ctx context.Context, w *cli.World, l *cli.Login, given cli.Sources, from io.Reader, name, server string, mode api.RestoreMode) error {
	c, err := l.Client(server, "Server", given, client.Options{})
	if err != nil {
		return err
	}
	done, err := c.Restore(ctx, from, mode)
	switch {
	case err != nil:
		return fmt.Errorf("restore %s: %w", name, err)
	case done.Again:
		fmt.Fprintf(w.Stdout, "%s: this backup, taken at %s, was merged before: nothing was counted again\n", server, cli.FormatMoment(done.TakenAt()))
	case mode == api.Replace:
		fmt.Fprintf(w.Stdout, "%s: the counts are those of the backup taken at %s, %d keys\n", server, cli.FormatMoment(done.TakenAt()), done.Keys)
	default:
		fmt.Fprintf(w.Stdout, "%s: merged the backup taken at %s, %d keys\n", server, cli.FormatMoment(done.TakenAt()), done.Keys)
	}
	return nil
}

const defaultData = "weir-data"

func newVerify(w *cli.World) *cobra.Command {
	var r cli.Remote // for print alone
	dir := defaultData
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify a data directory",
		Long: `Read a whole data directory, and report what it contains and whether it is intact.

Every snapshot and every journal message is checked: checksums, holes, repeats, and the
running total of each partition. The directory must not be in use and is not changed. A
copy is made in the directory for temporary files.

For a node of a cluster, its own replica is read. Other nodes may have what it lost.

Exit codes: 0 no hit is lost, 1 hits are lost or the directory is unreadable, 2 invalid
command line.`,
		Example: "  weir verify --data /var/lib/weir",
		Args:    cli.Args(),
		RunE: cli.Work(w, func(cmd *cobra.Command, _ []string, _ cli.Sources) error {
			report, err := backup.VerifyDirectory(cmd.Context(), dir)
			if err != nil {
				return err
			}
			if err := r.Print(w.Stdout, newVerified(report), func(t *cli.Table) { printReport(t, report) }); err != nil {
				return err
			}
			if !report.Sound() && report.Node != "" {
				return errors.New("this node's replica is damaged: start the node while the others are up, and it copies what they have; " +
					"if its manifest is damaged, with an empty directory under the same name")
			}
			if !report.Sound() {
				return errors.New("the data directory is damaged, and hits are lost: restore a backup, or start with --accept-damage")
			}
			return nil
		}),
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&dir, "data", dir, "data directory")
	cmd.Flags().BoolVar(&r.JSON, "json", false, "print JSON")
	return cmd
}

func printReport(t *cli.Table, r backup.VerifyReport) {
	t.Row("sound", yesNo(r.Sound()))
	if r.Node != "" {
		t.Row("replica of node", r.Node)
	}
	t.Row("created", r.Created)
	t.Row("origin", fmt.Sprintf("%016x", r.Origin))
	t.Row("starts", fmt.Sprint(r.Epoch))
	t.Row("partitions", fmt.Sprint(r.Partitions))
	t.Row("retention", units.FormatDuration(r.Retention))
	t.Row("size", units.FormatSize(r.Bytes))
	t.Row("sound snapshots", fmt.Sprint(r.Snapshots))
	t.Row("journal messages", fmt.Sprintf("%d (%d to %d)", r.Messages, r.First, r.Last))
	t.Row("flushes to replay", fmt.Sprint(r.Replayed))
	t.Row("repeats, dropped", fmt.Sprint(r.Repeats))
	t.Row("unfinished flushes", fmt.Sprint(r.Unfinished))
	t.Row("keys", fmt.Sprint(r.Keys))
	t.Row("hits", fmt.Sprint(r.Hits))
	for _, f := range r.Findings {
		kind := "LOST"
		if f.Harmless {
			kind = "harmless"
		}
		t.Row(kind, f.String())
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// verified is a report in JSON.
type verified struct {
	backup.VerifyReport
	Sound      bool     `json:"sound"`
	Created    api.Time `json:"created"`
	Origin     string   `json:"origin"` // hexadecimal: JSON's numbers may not hold it
	RetentionS int64    `json:"retention_s"`
}

func newVerified(r backup.VerifyReport) verified {
	r.Findings = slices.Grow(r.Findings, 1)      // a list in JSON, also an empty one
	at, _ := time.Parse(time.RFC3339, r.Created) // the zero time if the manifest has none
	return verified{r, r.Sound(), api.Time{Time: at}, fmt.Sprintf("%016x", r.Origin), int64(r.Retention / time.Second)}
}
