package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/node"
)

// serveFlags are the settings of weir serve. Those that are not simply a field of node are combined into it.
type serveFlags struct {
	node          node.Config
	insecurePeers bool
	tlsMin        string
	clock         string
	rlsAlgorithm  string
	logLevel      string
	logFormat     string
	config        string
	demo          bool
	historyKeep   []string // [PREFIX=]HOURS/DAYS
	growsAt       string   // --cluster-addr of a node alone that follows the peers of the settings file; "": it does not
}

// newServeFlags returns the settings with their defaults.
func newServeFlags() *serveFlags {
	f := &serveFlags{
		node: node.DefaultConfig(), tlsMin: "1.3", clock: "wall", rlsAlgorithm: limit.Window.String(), logLevel: "info", logFormat: "text",
		historyKeep: []string{"400d/3653d"},
	}
	cfg := &f.node
	cfg.Service.Version = buildVersion()
	cfg.Journal.Dir = "weir-data"
	cfg.History.On, cfg.History.Every, cfg.History.Slot = true, 5*time.Second, time.Hour
	r, e := &cfg.RESP, &cfg.RLS
	r.MaxConns, r.RequestTimeout, r.DrainDelay, r.StopTimeout = 0, 0, 0, 0 // as for HTTP
	e.MaxConns, e.RequestTimeout, e.DrainDelay, e.StopTimeout = 0, 0, 0, 0
	return f
}

func newServe(w *cli.World) *cobra.Command {
	f := newServeFlags()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server",
		Long: `Run a server that counts hits, answers questions about them and decides about
limits. Without settings it serves HTTP on 127.0.0.1:8080 and keeps its data in
./weir-data. Its API is described at /docs.

A hit sent with durable=true is on disk before it is acknowledged. A crash loses at
most the other hits of the last 100 ms.

The most common settings are listed below; --help-all and docs/settings.md list all.
Each can also be an environment variable (--max-disk is WEIR_MAX_DISK) or a line of
the YAML file that --config names:

  http: 127.0.0.1:8080
  data: /var/lib/weir
  retention: 7d
  memory: 2GiB

Durations are written 90s, 5m, 24h, 7d, 1y or in plain seconds, sizes 512MiB.
To stop the server, interrupt it or send SIGTERM: it answers the requests that it
has begun, writes all hits to disk, and exits with code 0.`,
		Example: "  weir serve --retention 7d --memory 512MiB\n  weir serve --ephemeral",
		RunE: cli.Work(w, func(cmd *cobra.Command, _ []string, from cli.Sources) error {
			if all, err := cmd.Flags().GetBool("help-all"); err != nil || all {
				return errors.Join(err, cmd.Help())
			}
			if err := cmp.Or(f.checkDemo(from), f.checkEphemeral(from), checkListeners(cmd.Flags(), from)); err != nil {
				return err
			}
			f.combine(from)
			if err := f.readHistory(from); err != nil {
				return err
			}
			return f.serve(cmd.Context(), w)
		}),
	}
	f.define(cmd)
	return cmd
}

// combine fills in what several flags say together, and leaves to the node what none says.
func (f *serveFlags) combine(from cli.Sources) {
	cfg := &f.node
	cfg.Journal.Join.Insecure, cfg.Regions.Insecure, cfg.Alerts.Insecure = f.insecurePeers, f.insecurePeers, f.insecurePeers
	cfg.Topics.Insecure, cfg.Backups.Insecure, cfg.Traces.Insecure = f.insecurePeers, f.insecurePeers, f.insecurePeers
	if f.tlsMin == "1.2" {
		cfg.TLS.Min = tls.VersionTLS12
	}
	cfg.RLS.Algorithm, _ = limit.ParseAlgorithm(f.rlsAlgorithm) // the flag takes no other word
	if node, addr, given := strings.Cut(cfg.RLS.XDS.Addr, "@"); given {
		cfg.RLS.XDS.Node, cfg.RLS.XDS.Addr = node, addr
	}
	if f.clock == "event" {
		cfg.Engine.Clock = weir.EventClock
	}
	for flag, bytes := range map[string]*int64{"memory": &cfg.Engine.Memory, "limit-memory": &cfg.Engine.LimitMemory, "idempotency-memory": &cfg.Engine.OnceMemory} {
		if from[flag] == "" {
			*bytes = 0
		}
	}
	cfg.Service.MaxBufferedBytes, cfg.Service.MaxDurable = 0, 0 // as --max-in-flight says
	if from["stop-timeout"] != "" {
		cfg.CloseTimeout = cfg.HTTP.StopTimeout
	}
	f.setAlone(from)
}

// serve runs a node until ctx is done or the node fails.
func (f *serveFlags) serve(ctx context.Context, w *cli.World) error {
	log := f.logger(w)
	cfg := f.node
	cfg.Logger = log
	if _, given := w.Env("GOMEMLIMIT"); w.OwnsProcess && !given { // else the user has set a limit
		limit := newProcessLimit()
		defer limit.close()
		cfg.OnMemory = limit.setBounds
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // it waits while the data directory is opened
	defer signal.Stop(hangup)
	n, err := node.Start(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			return nil
		}
		return err
	}
	running, end := context.WithCancel(ctx)
	defer end()
	if f.demo {
		ended, err := f.makeDemo(running, n, log)
		if err != nil {
			return errors.Join(err, n.Close(ctx))
		}
		defer func() {
			end()
			ended()
		}()
	}
	if w.Serving != nil {
		w.Serving(n.Addr())
	}
	socket, _ := w.Env("NOTIFY_SOCKET")
	defer notifySystemd(running, socket, n.Ready, log)()
	grown := make(chan error, 1)
	if f.growsAt != "" {
		go func() { grown <- f.awaitGrowth(running, log) }()
	}
	for {
		select {
		case <-hangup:
			f.reload(n, log)
			continue
		case err = <-grown:
		case <-ctx.Done():
		case <-n.Done():
		}
		end()
		return errors.Join(err, n.Close(context.WithoutCancel(ctx)))
	}
}

// reload reads files again. Without any a SIGHUP asks for nothing, and does not end the process:
// who sends it to all servers of a machine means well.
func (f *serveFlags) reload(n *node.Node, log *slog.Logger) {
	if cfg := &f.node; cfg.Policies.File+cfg.Tokens.File+cfg.TLS.Cert+cfg.AuditLog+cfg.RLS.Limits == "" {
		log.Warn("SIGHUP ignored: there is no --policy, --tokens, --tls-cert, --audit-log or --rls-config to reload")
		return
	}
	n.Reload()
}

func (f *serveFlags) logger(w *cli.World) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(f.logLevel))); err != nil {
		panic(err) // the flag takes only levels
	}
	options := &slog.HandlerOptions{Level: level}
	if f.logFormat == "json" {
		options.ReplaceAttr = durationsAsText
		return slog.New(slog.NewJSONHandler(w.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(w.Stderr, options))
}

// durationsAsText writes durations as text logs do, 1.5s: JSON would have a number of nanoseconds.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// A node whose --peers is its own address runs alone. A restart with more --peers makes it a node of a cluster, and one with
// fewer makes it a node alone again. Nothing else differs: a supervisor needs one command for one node and for many.

// errGrown ends a node that is alone, so that its supervisor starts it as one of a cluster.
var errGrown = errors.New("the other nodes of --peers are up: this node ends, to be started again as one of a cluster")

const (
	lookForPeers = time.Second // how often a node alone looks for others
	reachPeer    = time.Second // within which another node accepts a connection
)

// setAlone makes the only node of --peers a node alone, which may have the directory of a cluster's last node.
func (f *serveFlags) setAlone(from cli.Sources) {
	j := &f.node.Journal
	c := &j.Join
	if c.Cluster == "" || len(others(c.Peers, c.Addr)) > 0 || len(c.Peers) == 0 {
		return
	}
	if where := from["peers"]; where != "--peers" && where != cli.SettingVariable("peers") {
		f.growsAt = c.Addr
	}
	insecure := c.Insecure
	*c, j.Replicas, j.LeaveCluster = node.Config{}.Journal.Join, 0, true
	c.Insecure = insecure
}

func others(peers []string, addr string) []string {
	return slices.DeleteFunc(slices.Clone(peers), func(p string) bool { return p == addr })
}

// awaitGrowth returns errGrown when the settings file names further nodes and all of them are up, because the first start
// of a cluster needs all. It returns nil when ctx ends.
func (f *serveFlags) awaitGrowth(ctx context.Context, log *slog.Logger) (grown error) {
	said := ""
	concurrency.Every(ctx, lookForPeers, func() bool {
		peers, err := cli.Setting(f.config, "peers")
		missing := ""
		switch further := others(strings.Split(strings.Join(peers, ","), ","), f.growsAt); {
		case err != nil:
			missing = err.Error()
		case len(peers) == 0 || len(further) == 0:
		default:
			if missing = unreachable(ctx, further); missing == "" {
				grown = errGrown
				return false
			}
		}
		if missing != said {
			log.Warn("this node runs alone until it can join the cluster", "settings", f.config, "waits_for", missing)
			said = missing
		}
		return true
	})
	return grown
}

// unreachable returns why one of the nodes is not up, or "".
func unreachable(ctx context.Context, nodes []string) string {
	for _, addr := range nodes {
		conn, err := (&net.Dialer{Timeout: reachPeer}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err.Error()
		}
		_ = conn.Close()
	}
	return ""
}
