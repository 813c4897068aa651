package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/units"
)

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
