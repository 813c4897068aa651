package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/node"
)

// serveFlags are the flags of weir serve, with their defaults.
type serveFlags struct {
	node node.Config
	// Of the journal's Join, which has one for both.
	clusterInsecure, natsInsecure bool
	tlsMin                        string
	clock                         string
	rlsAlgorithm                  string
	logLevel                      string
	logFormat                     string
	config                        string
	demo                          bool
	historyKeep                   []string // [PREFIX=]HOURS/DAYS
}

func newServe(w *cli.World) *cobra.Command {
	f := serveFlags{node: node.DefaultConfig(), tlsMin: "1.3", clock: "wall", rlsAlgorithm: limit.Window.String(), logLevel: "info", logFormat: "text"}
	f.node.Service.Version = buildVersion()
	f.node.Journal.Dir = "weir-data"
	r := &f.node.RESP
	r.MaxConns, r.RequestTimeout, r.DrainDelay, r.StopTimeout = 0, 0, 0, 0 // those of HTTP
	e := &f.node.RLS
	e.MaxConns, e.RequestTimeout, e.DrainDelay, e.StopTimeout = 0, 0, 0, 0
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server",
		Long: `Run a server that takes hits and answers questions about them over HTTP.
Its API is described at /docs and /openapi.json.

Hits are kept in the data directory, and are there again after a restart. A hit
sent as durable is on disk before it is answered; without that a crash may lose
at most one flush interval. When the disk is slow or full, hits wait in memory,
and once that buffer is full they are refused.

Every flag may be a variable (--max-ahead is WEIR_MAX_AHEAD), and a line of
the YAML file that --config names:

  http: 127.0.0.1:8080
  data: /var/lib/weir
  retention: 7d
  memory: 2GiB

With --policy, POST /v1/allow decides by the limits of that file; 'weir limits check'
checks one. Weir applies a change of the file within a second; if the file is wrong,
it logs why and keeps the old limits. A restart keeps what was used of limits with a
period of a minute or more, a crash loses at most one flush interval of it; limits
with shorter periods start over.

Who may do what, --tokens says: see 'weir token'. Other machines reach a server only
with --tokens and --tls-cert, or with --insecure. See docs/security.md.

Nodes with the same --cluster and --peers count together: send hits to any of them,
and ask any of them. Or they use an existing NATS, with --nats. See docs/cluster.md.

Durations are written 90s, 5m, 24h, 7d, 1w or in plain seconds, sizes 512MiB.
It stops at an interrupt, after the requests that it has begun to answer, with
all hits on disk.`,
		Example: "  weir serve --retention 7d --memory 512MiB\n  weir serve --ephemeral",
		Args:    cli.Args(),
		RunE: cli.Work(w, func(cmd *cobra.Command, _ []string, from cli.Sources) error {
			if err := f.checkDemo(from); err != nil {
				return err
			}
			if err := f.checkEphemeral(from); err != nil {
				return err
			}
			if err := checkDoors(cmd.Flags(), from); err != nil {
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
	cfg.Journal.Join.Insecure = f.clusterInsecure
	if cfg.Journal.Join.URL != "" {
		cfg.Journal.Join.Insecure = f.natsInsecure
	}
	if f.tlsMin == "1.2" {
		cfg.TLS.Min = tls.VersionTLS12
	}
	cfg.RLS.Algorithm = algorithmOf(f.rlsAlgorithm)
	if f.clock == "event" {
		cfg.Engine.Clock = weir.EventClock
	}
	if from["memory"] == "" {
		cfg.Engine.Memory = 0
	}
	if from["limit-memory"] == "" {
		cfg.Engine.LimitMemory = 0
	}
	if from["idempotency-memory"] == "" {
		cfg.Engine.OnceMemory = 0
	}
	if from["max-buffered-bytes"] == "" {
		cfg.Service.MaxBufferedBytes = 0
	}
}

// define adds the flags, in the order in which the help has them under its headings.
func (f *serveFlags) define(cmd *cobra.Command) {
	cfg, flags := &f.node, cmd.Flags()
	e, j, s, h, r := &cfg.Engine, &cfg.Journal, &cfg.Service, &cfg.HTTP, &cfg.RESP
	flags.SortFlags = false
	cmd.SetUsageFunc(serveUsage)
	flags.StringVar(&h.Addr, "http", h.Addr, "address to listen on, host:port")
	flags.StringVar(&r.Addr, "resp", "", "address for clients of Redis, host:port, such as 127.0.0.1:6379 (docs/resp.md)")
	f.defineRLS(cmd)
	f.defineStatsD(cmd)
	f.defineLocks(cmd)
	flags.StringSliceVar(&h.AllowHosts, "allow-host", nil, "name that clients reach this server by, *.example.com or *; IP addresses, names without a dot, .internal and this machine's name are allowed always")
	flags.StringSliceVar(&h.AllowOrigins, "allow-origin", nil, "site whose web pages may use this server, scheme://host[:port]")
	flags.StringVar(&j.Dir, "data", j.Dir, "directory that keeps the hits; made if it is not there")
	flags.BoolVar(&f.demo, "demo", false, "make traffic to look at, in memory, with policies of its own (docs/dashboard.md)")
	flags.BoolVar(&cfg.Ephemeral, "ephemeral", false, "keep hits in memory only")
	cli.Choice(cmd, &f.clock, "clock", "what is now: the time of day, or the newest hit", "wall", "event")
	flags.Var(cli.Duration(&e.Retention), "retention", "how long hits are kept, 1s to 1000000000s; a node alone may change it at a restart, and a shorter one needs --shrink-retention")
	flags.BoolVar(&f.node.Journal.ShrinkRetention, "shrink-retention", false, "let a shorter --retention than that of the data directory drop the hits that are older")
	flags.Var(cli.Size(&e.Memory), "memory", "memory budget of the counters; the process may need 512MiB and 1.5 times this, --limit-memory and three times --idempotency-memory (docs/deploy.md)")
	flags.Var(cli.Size(&e.OnceMemory), "idempotency-memory", "memory budget of the Idempotency-Keys of ten minutes that this node was the first to see; those of others have twice as much")
	flags.Var(cli.Duration(&e.MaxAhead), "max-ahead", "how far in the future a hit may be")
	flags.Var(cli.Duration(&j.FlushEvery), "flush-every", "how often hits are written to disk, 1ms to 1m: what a crash may lose")
	flags.Var(cli.Size(&j.MaxBytes), "max-disk", "size of the data directory at which hits are refused; where it is small, --memory, --limit-memory and --idempotency-memory are smaller by default")
	flags.Var(cli.Size(&j.SnapshotBytes), "snapshot-every", "journal to write between snapshots: what a start after a crash reads back")
	flags.BoolVar(&j.AcceptDamage, "accept-damage", false, "start although the data directory is damaged, without the hits that are lost")
	flags.StringVar(&cfg.Policies.File, "policy", "", "YAML file with the limits of keys; read again when it changes, and at a SIGHUP")
	cli.Choice(cmd, &cfg.Policies.API, "policies-api", "whether policies may be put by API too (weir policies), and whose is in use where the file has one of the same name; all nodes of a cluster need the same", node.PoliciesAPI...)
	flags.StringVar(&cfg.Warnings.URL, "warn-url", "", "address that is called when a key comes to the warning of its policy, https://... (docs/policies.md)")
	flags.StringVar(&cfg.Warnings.SecretFile, "warn-secret-file", "", "file with the secret that these calls are signed with, whsec_...")
	flags.BoolVar(&cfg.Warnings.Insecure, "warn-insecure", false, "let these calls go beyond loopback in plain")
	flags.Var(cli.Size(&e.LimitMemory), "limit-memory", "memory budget of what keys have used of their limits")
	flags.Var(cli.Duration(&s.MaxInlinePer), "max-inline-per", "longest period of the limits that requests bring along; these take a quarter of --limit-memory at most")
	f.defineJoin(cmd)
	f.defineRegions(cmd)
	f.defineHistory(cmd)
	flags.StringVar(&f.config, cli.ConfigFlag, "", "YAML file with settings")
	cli.Choice(cmd, &f.logLevel, "log-level", "the least that is logged", "debug", "info", "warn", "error")
	cli.Choice(cmd, &f.logFormat, "log-format", "how it is logged", "text", "json")
	flags.StringArrayVar(&h.MetricsKeys, "metrics-keys", nil, "keys that begin with this have counts of their own in /metrics, may be repeated; those with most hits, 1,000 series at most (docs/metrics.md)")
	flags.Var(cli.Size(&s.MaxBodyBytes), "max-body-bytes", "largest body of hits")
	flags.Var(cli.Size(&s.MaxBufferedBytes), "max-buffered-bytes", "memory of all large bodies that are being read")
	flags.Var(cli.Number(&h.MaxLineBytes), "max-line-bytes", "longest line of a body")
	flags.Var(cli.Number(&s.MaxBatch), "max-batch", "most lines of a body; one with more is refused whole")
	flags.Var(cli.Number(&s.MaxAnswers), "max-answers", "most keys times windows of one question")
	flags.Var(cli.Number(&s.MaxInFlight), "max-in-flight", "most requests at the same time, of hits, large bodies, decisions and questions each")
	flags.Var(cli.Number(&s.MaxDurable), "max-durable", "most requests that wait for the disk at the same time")
	flags.Var(cli.Number(&h.MaxConns), "max-conns", "most open connections of each address; one more takes the place of one that idles")
	flags.Var(cli.Duration(&h.ReadTimeout), "read-timeout", "time to send a request or to take an answer; large ones have more, by --min-rate")
	flags.Var(cli.Size(&h.MinRate), "min-rate", "bytes per second at which large bodies, answers and backups must move on")
	flags.Var(cli.Duration(&s.DurableTimeout), "durable-timeout", "time that a durable hit may wait for the disk")
	flags.Var(cli.Duration(&h.WriteTimeout), "write-timeout", "time from a request to the end of its answer")
	flags.Var(cli.Duration(&h.IdleTimeout), "idle-timeout", "time an idle connection stays open")
	flags.Var(cli.Size(&r.CounterMemory), "resp-counters", "memory of the counters of INCR and SET, with --resp")
	flags.Var(cli.Duration(&r.IdleTimeout), "resp-idle-timeout", "time an idle connection stays open, with --resp")
	flags.Var(cli.Delay(&h.DrainDelay), "drain-delay", "time from not ready to the end of listening, for load balancers")
	flags.Var(cli.Duration(&h.StopTimeout), "stop-timeout", "time that requests have to finish when the server stops")
	flags.Var(cli.Duration(&cfg.CloseTimeout), "close-timeout", "time that the last hits have after that to reach the disk")
}

// serve runs a node until ctx is done or the node fails.
func (f *serveFlags) serve(ctx context.Context, w *cli.World) error {
	log := f.logger(w)
	cfg := f.node
	cfg.Logger = log
	if _, given := w.Env("GOMEMLIMIT"); w.OwnsProcess && !given { // whoever has set it knows better
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
	defer Notify(running, socket, n.Handler(), log)()
	for {
		select {
		case <-hangup:
			f.reload(n, log)
			continue
		case <-ctx.Done():
		case <-n.Done():
		}
		end()
		return n.Close(context.WithoutCancel(ctx))
	}
}

// reload reads files again. Without any a SIGHUP asks for nothing, and does not end the process:
// who sends it to all servers of a machine means well.
func (f *serveFlags) reload(n *node.Node, log *slog.Logger) {
	if of := &f.node; of.Policies.File+of.Tokens.File+of.TLS.Cert+of.AuditLog+of.RLS.Limits == "" {
		log.Warn("SIGHUP ignored: this server has no --policy file to read again, nor --tokens, --tls-cert, --audit-log or --rls-config")
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

// durationsAsText writes durations as text logs do, 1.5s: JSON would have a number
// of nanoseconds.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// serveHeadings are the headings of serve's flags in its help, each by the first flag below it.
var serveHeadings = map[string]string{
	"http":           "Addresses for clients",
	"tokens":         "Who may use it",
	"data":           "What it keeps",
	"policy":         "Limits",
	"cluster":        "Nodes that count together",
	"region":         "Regions",
	"history":        "History",
	"config":         "Settings, log, metrics",
	"max-body-bytes": "Bounds",
	"drain-delay":    "Stopping",
	"help":           "Help",
}

// serveUsage prints the usage of serve, whose flags are too many for one list.
func serveUsage(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
	var below *pflag.FlagSet
	end := func() {
		if below != nil {
			fmt.Fprint(out, below.FlagUsages())
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if heading := serveHeadings[f.Name]; heading != "" {
			end()
			fmt.Fprintf(out, "\n%s:\n", heading)
			below = pflag.NewFlagSet(heading, pflag.ContinueOnError)
			below.SortFlags = false
		}
		below.AddFlag(f)
	})
	end()
	return nil
}

func (f *serveFlags) defineStatsD(cmd *cobra.Command) {
	d, flags := &f.node.StatsD, cmd.Flags()
	flags.StringVar(&d.Addr, "statsd", "", "address for StatsD by UDP and TCP, host:port, such as 127.0.0.1:8125 (docs/statsd.md)")
	flags.StringVar(&d.Key, "statsd-key", d.Key, "what keys are made of, with --statsd: text, {name}, {tag:NAME}, {tags}")
	flags.StringVar(&d.Identity, "statsd-identity", "", "identity of the tokens file whose hits those of StatsD are")
}

// defineRLS defines the flags of the door for Envoy.
func (f *serveFlags) defineRLS(cmd *cobra.Command) {
	r, flags := &f.node.RLS, cmd.Flags()
	flags.StringVar(&r.Addr, "rls", "", "address for Envoy's rate limit service, host:port, such as 127.0.0.1:8081 (docs/envoy.md)")
	flags.StringVar(&r.Limits, "rls-config", "", "file or folder with limits as envoyproxy/ratelimit has them, for --rls; read again when they change, and at a SIGHUP")
	flags.StringVar(&r.XDS.Addr, "rls-xds", "", "management server that limits come from, in place of --rls-config, host:port: Envoy Gateway")
	flags.StringVar(&r.XDS.Node, "rls-xds-node", r.XDS.WithDefaults().Node, "name that the management server knows this one by")
	flags.StringVar(&r.XDS.CA, "rls-xds-ca", "", "file with the authorities of the management server's certificate; without it there is no TLS")
	flags.StringVar(&r.XDS.Cert, "rls-xds-cert", "", "file with the certificate to show to the management server")
	flags.StringVar(&r.XDS.Key, "rls-xds-key", "", "file with its key")
	flags.BoolVar(&r.MergeDomains, "rls-merge-domains", false, "let several files of --rls-config, or resources of --rls-xds, have one domain")
	cli.Choice(cmd, &f.rlsAlgorithm, "rls-algorithm", "how limits of --rls-config are kept; fixed counts by the minute or hour of the clock, as envoyproxy/ratelimit does", limit.Window.String(), limit.Fixed.String(), limit.GCRA.String())
	flags.BoolVar(&r.Metadata, "rls-metadata", false, "answers carry dynamic metadata for Envoy: the request, the metadata of the limits that let it pass, and of limits that regions share what others used")
	cli.Choice(cmd, &r.Headers, "rls-headers", "header fields that Envoy is asked to add to responses", "draft", "plain", "none")
}

func algorithmOf(word string) limit.Algorithm {
	for _, a := range []limit.Algorithm{limit.Window, limit.Fixed, limit.GCRA} {
		if a.String() == word {
			return a
		}
	}
	panic(word) // the flag takes no other
}
