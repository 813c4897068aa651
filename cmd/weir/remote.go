package main

import (
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

// remote are the flags of every command that talks to a server.
type remote struct {
	login
	server  string
	timeout time.Duration
	json    bool
}

func (r *remote) define(cmd *cobra.Command) { r.defineWithin(cmd, 10*time.Second) }

// durableTimeout is longer than a server lets a durable hit wait, by default 10 s, and take
// to arrive: the server says why it takes so long, and a timeout does not.
const durableTimeout = 25 * time.Second

// defineWithin is define with a timeout of the command's own.
func (r *remote) defineWithin(cmd *cobra.Command, timeout time.Duration) {
	r.server, r.timeout = "http://127.0.0.1:8080", timeout
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&r.server, "server", r.server, "address of the server, or of a cluster's nodes, comma-separated")
	flags.Var(duration(&r.timeout), "timeout", "time to wait for each attempt of a request")
	r.login.define(cmd)
	flags.BoolVar(&r.json, "json", false, "print JSON")
}

// Fewer and shorter than a batch sender has: a person waits for the answer.
const (
	remoteRetries  = 2
	remoteMaxPause = 200 * time.Millisecond
)

// freshFlag is that of the questions about keys.
func freshFlag(cmd *cobra.Command, to *time.Duration) {
	cmd.Flags().Var(duration(to), "fresh", "wait at most so long, up to 10s, for all hits that any node took before; fail if some are missing (default: answer at once)")
}

const durableHelp = "wait until the hits are on the server's disk"

func (r *remote) client(from sources) (*client.Client, error) { return r.sender(from, false) }

func (r *remote) sender(from sources, durable bool) (*client.Client, error) {
	o, err := r.login.options(client.Options{
		Timeout: r.timeout, Retries: remoteRetries, MaxPause: remoteMaxPause, UserAgent: userAgent(), Durable: durable,
	})
	if err != nil {
		return nil, err
	}
	c, err := client.New(r.server, o)
	if err != nil {
		return nil, usage{from.Blame("Server", err)}
	}
	return c, nil
}

func userAgent() string { return "weir/" + buildVersion() }

// print writes an answer as JSON, or else as the table that rows writes.
func (r *remote) print(w io.Writer, answer any, rows func(t *table)) error {
	if r.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(answer)
	}
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	rows(&t)
	return t.Flush()
}

// incomplete says on stderr whose hits an answer may lack, where a table does not.
func (r *remote) incomplete(w *world, fresh client.Freshness) {
	if r.json {
		return
	}
	for _, late := range fresh.Late {
		fmt.Fprintf(w.stderr, "incomplete: hits of %s since %s may be missing\n", late.Node, timeText(late.Since))
	}
}

type table struct{ *tabwriter.Writer }

// row writes one line. Its error, if any, comes back from Flush.
func (t *table) row(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }

func windowText(seconds int64) string {
	return units.FormatDuration(time.Duration(seconds) * time.Second)
}

func timeText(t client.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// keyText writes a key so that it cannot control the terminal.
func keyText(key string) string { return replay.Printable(key) }
