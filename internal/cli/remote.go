// Package cli is what the commands of weir have in common: types of flags, arguments, tables for people, and what
// the shell completes. World is what a command sees of the outside. Work and Usage say how it runs and fails. Remote and
// Login are the flags of commands that talk to a server.
//
// Invariant: an error that a command returns is one of usage if it comes from Usage or names a setting, and one of the
// work itself otherwise; IsFailure tells them apart, for the exit code.
package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/replay"
	"github.com/weir-counter/weir/internal/units"
)

// Remote are the flags of every command that talks to a server.
type Remote struct {
	Login
	server  string
	timeout time.Duration
	every   time.Duration // 0: once
	clear   bool          // each answer takes the place of the one before on the screen
	JSON    bool
}

// Define adds the flags to a command, and returns it.
func (r *Remote) Define(cmd *cobra.Command) *cobra.Command {
	return r.DefineWithin(cmd, 10*time.Second)
}

// DurableTimeout is longer than a server lets a durable hit wait, by default 10 s, and take
// to arrive: the server says why it takes so long, and a timeout does not.
const DurableTimeout = 25 * time.Second

// DefineWithin is Define with a timeout of the command's own.
func (r *Remote) DefineWithin(cmd *cobra.Command, timeout time.Duration) *cobra.Command {
	r.server, r.timeout = "http://127.0.0.1:8080", timeout
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&r.server, "server", r.server, "address of the server, or comma-separated addresses of a cluster's nodes")
	flags.Var(Duration(&r.timeout), "timeout", "time to wait for each attempt of a request")
	r.Login.Define(cmd)
	flags.BoolVar(&r.JSON, "json", false, "print JSON")
	return cmd
}

// DefineEvery adds --every, for a command whose answer people watch.
func (r *Remote) DefineEvery(cmd *cobra.Command) {
	cmd.Flags().Var(Duration(&r.every), "every", "ask again at this interval, until interrupted (default: once)")
	cmd.Flags().Lookup("every").DefValue = "" // the usage says it
}

// Repeat calls ask once or, with --every, until ctx ends. Once there was an answer, an error is printed and does not end it.
func (r *Remote) Repeat(ctx context.Context, w *World, ask func() error) error {
	r.clear = w.Screen && r.every > 0 && !r.JSON
	for answered := false; ; {
		err := ask()
		switch {
		case r.every == 0:
			return err
		case ctx.Err() != nil:
			return nil
		case err != nil && !answered:
			return err
		case err != nil:
			fmt.Fprintf(w.Stderr, "weir: %s\n", LinesText(err.Error()))
		}
		answered = true
		if concurrency.Sleep(ctx, r.every) != nil {
			return nil
		}
	}
}

// Fewer and shorter than a batch sender has: a person waits for the answer.
const (
	remoteRetries  = 2
	remoteMaxPause = 200 * time.Millisecond
)

// FreshFlag adds --fresh to a question about keys.
func FreshFlag(cmd *cobra.Command, to *time.Duration) {
	cmd.Flags().Var(Duration(to), "fresh", "wait at most this long, up to 10s, for all hits that any node accepted before; fail if some are missing; 0: do not wait")
}

// ScopeFlag adds --scope to a question about keys.
func ScopeFlag(cmd *cobra.Command, to *client.Scope) {
	Choice(cmd, to, "scope", "whose hits are counted: this node's, its region's, or all (default global if the server has a --region, else region)",
		client.ScopeNode, client.ScopeRegion, client.ScopeGlobal)
}

// DurableHelp is the help of --durable.
const DurableHelp = "wait until the hits are on the server's disk"

// Client is a client of the server that the flags name. Its errors are of usage, or of files that can't be read.
func (r *Remote) Client(from Sources) (*client.Client, error) { return r.Sender(from, false) }

// Sender is Client for hits; with durable they are answered once they are on the server's disk.
func (r *Remote) Sender(from Sources, durable bool) (*client.Client, error) {
	return r.Login.Client(r.server, "Server", from, client.Options{
		Timeout: r.timeout, Retries: remoteRetries, MaxPause: remoteMaxPause, Durable: durable,
	})
}

// Print writes an answer as JSON, or else as the table that rows writes.
func (r *Remote) Print(w io.Writer, answer any, rows func(t *Table)) error {
	if r.JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(answer)
	}
	if r.clear {
		fmt.Fprint(w, "\x1b[H\x1b[2J")
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
		return r.Repeat(cmd.Context(), w, func() error {
			answer, err := ask(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			return r.Print(w.Stdout, answer, func(t *Table) { rows(t, answer) })
		})
	})
}

// Incomplete says on stderr whose hits an answer may lack, where a table does not.
func (r *Remote) Incomplete(w *World, fresh api.Freshness) {
	if r.JSON {
		return
	}
	for _, late := range fresh.Late {
		fmt.Fprintf(w.Stderr, "incomplete: hits of %s since %s may be missing\n", KeyText(late.Node), TimeText(late.Since))
	}
}

// Table is an answer for people: rows whose cells stand below each other.
type Table = replay.Table

// NewTable returns a table that Flush writes to w.
func NewTable(w io.Writer) *Table { return replay.NewTable(w) }

// WindowText writes a window of so many seconds for people: 5m.
func WindowText(seconds int64) string {
	return units.FormatDuration(time.Duration(seconds) * time.Second)
}

// TimeText writes a time as RFC 3339, in UTC.
func TimeText(t api.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// KeyText writes a key, or any other text of a server, so that it cannot control the terminal. Table does so by itself.
func KeyText(key string) string { return replay.Printable(key) }

// LinesText is KeyText for a text of several lines.
func LinesText(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = KeyText(line)
	}
	return strings.Join(lines, "\n")
}

// WaitText is a time to wait for people: from a second on in whole ones, rounded up.
func WaitText(seconds float64) string {
	d := time.Duration(seconds*1000+0.5) * time.Millisecond
	if d > time.Second {
		d = (d + time.Second - 1).Truncate(time.Second)
	}
	return units.FormatDuration(d)
}

// SecondsText is a time that passed, to three digits or so.
func SecondsText(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d.Abs() < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d.Abs() < 10*time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// LimitText is 5/1m, with the burst and the algorithm if they are not the usual ones, or 1000/month, UTC.
func LimitText(n uint64, per time.Duration, burst uint64, algorithm, calendar string) string {
	if calendar != "" {
		return fmt.Sprintf("%d/%s", n, calendar)
	}
	text := fmt.Sprintf("%d/%s", n, units.FormatDuration(per))
	if burst != n {
		text += fmt.Sprintf(" burst %d", burst)
	}
	if algorithm != "window" {
		text += " " + algorithm
	}
	return text
}

// World is what a command sees of the outside.
type World struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            func(name string) (string, bool)
	Environ        []string // all of env, as NAME=value
	Terminal       bool     // stderr is one
	Screen         bool     // stdout is one
	OwnsProcess    bool     // the command is alone in its process, and may set the garbage collector's limits
	// Serving, if set, is called with the address once a server listens: for tests.
	Serving func(addr string)
}

// failure is an error of the work itself. Every other error is one of usage.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// IsFailure reports whether an error of a command is one of its work.
func IsFailure(err error) bool { return errors.As(err, &failure{}) }

// Work makes RunE of a command: it settles the flags that the command line left open, and then calls do, whose errors
// are failures unless they say which setting was wrong.
func Work(w *World, do func(cmd *cobra.Command, args []string, from Sources) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		warnUnknown(w, cmd.Root())
		from, err := ResolveSettings(cmd.Flags(), w.Env)
		if err != nil {
			return err
		}
		err = do(cmd, args, from)
		var option *replay.OptionError
		var config *engine.Error
		switch {
		case err == nil:
			return nil
		case errors.As(err, &option):
			return from.Blame(option.Field, option)
		case errors.As(err, &config) && config.Code == api.CodeInvalidConfig:
			return from.Blame(config.Field, config)
		case errors.As(err, &usageError{}):
			return err
		}
		return failure{loginHint(unreachable(cmd, err))}
	}
}

// unreachable says what to do when no server answers, or not as it is asked.
func unreachable(cmd *cobra.Command, err error) error {
	if errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Errorf("%w: the server does not use TLS: write http://", err)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) || cmd.Flags().Changed("from") { // S3 refuses
		return err
	}
	flag := "--server"
	if cmd.Flags().Lookup("server") == nil {
		flag = "--to" // of weir replay
	}
	return fmt.Errorf("%w: is a server running? start one with weir serve, or name it with %s", err, flag)
}

// Sources says where the value of each flag came from.
type Sources = SettingSources

// usageError is an error of usage that a command finds while it works.
type usageError struct{ error }

// Usage makes of an error one of usage, that a command finds while it works.
func Usage(err error) error { return usageError{err} }

// Login is how a command proves to a server who it is, and how it knows the server.
type Login struct {
	token, ca, cert, key string

	cmd *cobra.Command // whose login it is
}

// Define adds the flags of a login to a command.
func (l *Login) Define(cmd *cobra.Command) {
	l.cmd = cmd
	cmd.Flags().StringVar(&l.token, "token", "", "access token; prefer WEIR_TOKEN, because command lines are visible to others")
	cmd.Flags().StringVar(&l.ca, "ca", "", "PEM file with the authority of the server's certificate (default: the system's)")
	cmd.Flags().StringVar(&l.cert, "cert", "", "PEM file with a client certificate (weir serve --tls-client-ca)")
	cmd.Flags().StringVar(&l.key, "cert-key", "", "PEM file with the key of --cert (default: the file of --cert)")
}

// options fills in the login.
func (l *Login) options(o client.Options) (client.Options, error) {
	o.Token, o.UserAgent = l.token, "weir/"+l.cmd.Root().Version
	if l.ca == "" && l.cert == "" && l.key == "" {
		return o, nil
	}
	o.TLS = &tls.Config{}
	if l.ca != "" {
		text, err := ReadAtMost(l.ca, MaxSettingsBytes)
		if err != nil {
			return o, fmt.Errorf("--ca: %w", err)
		}
		o.TLS.RootCAs = x509.NewCertPool()
		if !o.TLS.RootCAs.AppendCertsFromPEM(text) {
			return o, Usage(fmt.Errorf("--ca %s: no certificate in PEM", l.ca))
		}
	}
	if l.cert == "" && l.key == "" {
		return o, nil
	}
	if l.cert == "" {
		return o, Usage(errors.New("--cert-key needs --cert"))
	}
	pair, err := tls.LoadX509KeyPair(l.cert, cmp.Or(l.key, l.cert))
	if missing, ok := errors.AsType[*fs.PathError](err); ok && missing.Path == l.cert {
		return o, fmt.Errorf("--cert: %w", err)
	} else if ok {
		return o, fmt.Errorf("--cert-key: %w", err)
	}
	if err != nil {
		return o, Usage(fmt.Errorf("--cert %s does not match its key (--cert-key): %w", l.cert, err))
	}
	o.TLS.Certificates = []tls.Certificate{pair}
	return o, nil
}

// Client is a client of the server that a flag names: Server or To.
func (l *Login) Client(server, flag string, from Sources, o client.Options) (*client.Client, error) {
	o, err := l.options(o)
	if err != nil {
		return nil, err
	}
	c, err := client.New(server, o)
	if err != nil {
		return nil, Usage(from.Blame(flag, err))
	}
	return c, nil
}

// loginHint says what to do about a TLS handshake that failed, in the words of the command line.
func loginHint(err error) error {
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var remote *net.OpError
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return fmt.Errorf("%w: name its authority with --ca FILE", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w: name the server by a name of its certificate, or give it a certificate for %s", err, KeyText(name.Host))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w: renew the server's certificate (weir serve --tls-cert), or set the clock of this machine", err)
	case errors.As(err, &remote) && remote.Op == "remote error": // an alert of TLS
		return fmt.Errorf("%w: the server refuses the client certificate: name one that its --tls-client-ca signed with --cert and --cert-key", err)
	}
	return err
}
