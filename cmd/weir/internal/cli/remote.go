package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/replay"
)

// Remote are the flags of every command that talks to a server.
type Remote struct {
	Login
	server  string
	timeout time.Duration
	JSON    bool
}

// Define adds the flags to a command.
func (r *Remote) Define(cmd *cobra.Command) { r.DefineWithin(cmd, 10*time.Second) }

// DurableTimeout is longer than a server lets a durable hit wait, by default 10 s, and take
// to arrive: the server says why it takes so long, and a timeout does not.
const DurableTimeout = 25 * time.Second

// DefineWithin is Define with a timeout of the command's own.
func (r *Remote) DefineWithin(cmd *cobra.Command, timeout time.Duration) {
	r.server, r.timeout = "http://127.0.0.1:8080", timeout
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&r.server, "server", r.server, "address of the server, or of a cluster's nodes, comma-separated")
	flags.Var(Duration(&r.timeout), "timeout", "time to wait for each attempt of a request")
	r.Login.Define(cmd)
	flags.BoolVar(&r.JSON, "json", false, "print JSON")
}

// Fewer and shorter than a batch sender has: a person waits for the answer.
const (
	remoteRetries  = 2
	remoteMaxPause = 200 * time.Millisecond
)

// FreshFlag is that of the questions about keys.
func FreshFlag(cmd *cobra.Command, to *time.Duration) {
	cmd.Flags().Var(Duration(to), "fresh", "wait at most so long, up to 10s, for all hits that any node took before; fail if some are missing (default: answer at once)")
}

// ScopeFlag is that of the questions about keys.
func ScopeFlag(cmd *cobra.Command, to *client.Scope) {
	Choice(cmd, to, "scope", "whose hits are counted: those that the server holds, those of its region, or all (default global if the server has a --region, else region)",
		client.ScopeNode, client.ScopeRegion, client.ScopeGlobal)
}

// DurableHelp is the help of --durable.
const DurableHelp = "wait until the hits are on the server's disk"

// Server is the address that was given.
func (r *Remote) Server() string { return r.server }

// Client is a client of the server that the flags name. Its errors are of usage, or of files that can't be read.
func (r *Remote) Client(from Sources) (*client.Client, error) { return r.Sender(from, false) }

// Sender is Client for hits; with durable they are answered once they are on the server's disk.
func (r *Remote) Sender(from Sources, durable bool) (*client.Client, error) {
	o, err := r.Login.Options(client.Options{
		Timeout: r.timeout, Retries: remoteRetries, MaxPause: remoteMaxPause, Durable: durable,
	})
	if err != nil {
		return nil, err
	}
	c, err := client.New(r.server, o)
	if err != nil {
		return nil, Usage(from.Blame("Server", err))
	}
	return c, nil
}

// Print writes an answer as JSON, or else as the table that rows writes.
func (r *Remote) Print(w io.Writer, answer any, rows func(t *Table)) error {
	if r.JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(answer)
	}
	t := NewTable(w)
	rows(t)
	return t.Flush()
}

// Ask is the work of a command that asks a server one thing and prints the answer: as JSON, or as the table that rows
// writes.
func Ask[A any](w *World, r *Remote, ask func(ctx context.Context, c *client.Client, args []string) (A, error), rows func(t *Table, answer A)) func(*cobra.Command, []string) error {
	return Work(w, func(cmd *cobra.Command, args []string, from Sources) error {
		c, err := r.Client(from)
		if err != nil {
			return err
		}
		answer, err := ask(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		return r.Print(w.Stdout, answer, func(t *Table) { rows(t, answer) })
	})
}

// Incomplete says on stderr whose hits an answer may lack, where a table does not.
func (r *Remote) Incomplete(w *World, fresh client.Freshness) {
	if r.JSON {
		return
	}
	for _, late := range fresh.Late {
		fmt.Fprintf(w.Stderr, "incomplete: hits of %s since %s may be missing\n", late.Node, TimeText(late.Since))
	}
	for _, region := range fresh.Untold {
		fmt.Fprintf(w.Stderr, "incomplete: hits of region %s are missing, which does not tell others such keys (its --region-keys)\n", region)
	}
}

// Table is an answer for people: rows whose cells stand below each other.
type Table struct{ *tabwriter.Writer }

// NewTable is a table that Flush writes to w.
func NewTable(w io.Writer) *Table { return &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// Row writes one line. Its error, if any, comes back from Flush.
func (t *Table) Row(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }

// WindowText writes a window of so many seconds for people: 5m.
func WindowText(seconds int64) string {
	return units.FormatDuration(time.Duration(seconds) * time.Second)
}

// TimeText writes a time as RFC 3339, in UTC.
func TimeText(t client.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// KeyText writes a key so that it cannot control the terminal.
func KeyText(key string) string { return replay.Printable(key) }

// WaitText is a time to wait for people: from a second on in whole ones, rounded up.
func WaitText(seconds float64) string {
	d := time.Duration(seconds*1000+0.5) * time.Millisecond
	if d > time.Second {
		d = (d + time.Second - 1).Truncate(time.Second)
	}
	return units.FormatDuration(d)
}
