package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/journal"
	"github.com/weir-counter/weir/server"
)

// serveFlags are the flags of weir serve, with their defaults.
type serveFlags struct {
	engine    weir.Config
	server    server.Config
	journal   journal.Config
	policies  policies
	ephemeral bool
	// Of the journal's Join, which has one for both.
	clusterInsecure, natsInsecure bool
	// closeTimeout bounds the last flush and the snapshots. Those that are not
	// taken in time only make the next start longer.
	closeTimeout time.Duration
	clock        string
	logLevel     string
	logFormat    string
	config       string

	memoryGiven, limitMemoryGiven bool
}

func newServe(w *world) *cobra.Command {
	f := serveFlags{
		engine:       weir.Config{Retention: 30 * 24 * time.Hour, Memory: 1 << 30, LimitMemory: 256 << 20, OnceMemory: 64 << 20, MaxAhead: 5 * time.Second},
		server:       server.DefaultConfig(),
		journal:      journal.DefaultConfig(),
		closeTimeout: 10 * time.Second,
		clock:        "wall", logLevel: "info", logFormat: "text",
	}
	f.server.Version = buildVersion()
	f.journal.Dir = "weir-data"
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

With --policy, POST /v1/allow decides by the limits of that file: 'weir limits check'
reads one. A change of it is taken over within a second, and a wrong one is logged
and leaves the limits as they are. A restart keeps what was used of limits with a
period of a minute or more, a crash loses at most one flush interval of it; shorter
ones begin anew.

Nodes that are given the same --cluster and --peers count together: each takes
hits and answers for all. Or they meet in an existing NATS, with --nats. See
docs/cluster.md.

Durations are written 90s, 5m, 24h, 7d, 1w or in plain seconds, sizes 512MiB.
It stops at an interrupt, after the requests that it has begun to answer, with
all hits on disk.`,
		Example: "  weir serve --retention 7d --memory 512MiB\n  weir serve --ephemeral",
		Args:    args(),
		RunE: work(w, func(cmd *cobra.Command, _ []string, from sources) error {
			if err := f.checkEphemeral(from); err != nil {
				return err
			}
			if s := &f.server; from["max-buffered-bytes"] == "" {
				s.MaxBufferedBytes = max(s.MaxBufferedBytes, 2*s.MaxBodyBytes)
			}
			f.memoryGiven, f.limitMemoryGiven = from["memory"] != "", from["limit-memory"] != ""
			return f.serve(cmd.Context(), w)
		}),
	}
	f.define(cmd)
	return cmd
}

func (f *serveFlags) define(cmd *cobra.Command) {
	s, j, flags := &f.server, &f.journal, cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&s.Addr, "http", s.Addr, "address to listen on, host:port")
	flags.StringSliceVar(&s.AllowHosts, "allow-host", nil, "name that clients reach this server by, *.example.com or *; IP addresses, names without a dot, .internal and this machine's name are allowed always")
	flags.StringSliceVar(&s.AllowOrigins, "allow-origin", nil, "site whose web pages may use this server, scheme://host[:port]")
	flags.StringVar(&j.Dir, "data", j.Dir, "directory that keeps the hits; made if it is not there")
	flags.BoolVar(&f.ephemeral, "ephemeral", false, "keep hits in memory only")
	choice(cmd, &f.clock, "clock", "what is now: the time of day, or the newest hit", "wall", "event")
	flags.Var(duration(&f.engine.Retention), "retention", "how long hits are kept, 1s to 1000000000s; a node alone may change it at a restart, and a shorter one drops what is older")
	flags.Var(size(&f.engine.Memory), "memory", "memory budget of the counters; the process may need 1.5 times this and the two below, and 512MiB (docs/deploy.md)")
	flags.StringVar(&f.policies.path, "policy", "", "YAML file with the limits of keys; read again when it changes, and at a SIGHUP")
	flags.Var(size(&f.engine.LimitMemory), "limit-memory", "memory budget of what keys have used of their limits")
	flags.Var(duration(&s.MaxInlinePer), "max-inline-per", "longest period of the limits that requests bring along; these take a quarter of --limit-memory at most")
	flags.Var(size(&f.engine.OnceMemory), "idempotency-memory", "memory budget of the Idempotency-Keys of ten minutes that this node was the first to see; those of others have twice as much")
	flags.Var(duration(&f.engine.MaxAhead), "max-ahead", "how far in the future a hit may be")
	flags.Var(duration(&j.FlushEvery), "flush-every", "how often hits are written to disk, 1ms to 1m: what a crash may lose")
	flags.Var(size(&j.MaxBytes), "max-disk", "size of the data directory at which hits are refused; where it is small, --memory and --limit-memory are smaller by default")
	flags.Var(size(&j.SnapshotBytes), "snapshot-every", "journal to write between snapshots: what a start after a crash reads back")
	flags.BoolVar(&j.AcceptDamage, "accept-damage", false, "start although the data directory is damaged, without the hits that are lost")
	f.defineJoin(cmd)
	flags.StringVar(&f.config, configFlag, "", "YAML file with settings")
	choice(cmd, &f.logLevel, "log-level", "the least that is logged", "debug", "info", "warn", "error")
	choice(cmd, &f.logFormat, "log-format", "how it is logged", "text", "json")
	flags.Var(size(&s.MaxBodyBytes), "max-body-bytes", "largest body of hits")
	flags.Var(size(&s.MaxBufferedBytes), "max-buffered-bytes", "memory of all large bodies that are being read")
	flags.Var(number(&s.MaxLineBytes), "max-line-bytes", "longest line of a body")
	flags.Var(number(&s.MaxBatch), "max-batch", "most lines of a body; one with more is refused whole")
	flags.Var(number(&s.MaxAnswers), "max-answers", "most keys times windows of one question")
	flags.Var(number(&s.MaxInFlight), "max-in-flight", "most requests at the same time, of hits, large bodies, decisions and questions each")
	flags.Var(number(&s.MaxDurable), "max-durable", "most requests that wait for the disk at the same time")
	flags.Var(number(&s.MaxConns), "max-conns", "most open connections; one more takes the place of one that idles")
	flags.Var(duration(&s.ReadTimeout), "read-timeout", "time to send a request or to take an answer; large ones have more, by --min-rate")
	flags.Var(size(&s.MinRate), "min-rate", "bytes per second at which large bodies, answers and backups must move on")
	flags.Var(duration(&s.DurableTimeout), "durable-timeout", "time that a durable hit may wait for the disk")
	flags.Var(duration(&s.WriteTimeout), "write-timeout", "time from a request to the end of its answer")
	flags.Var(duration(&s.IdleTimeout), "idle-timeout", "time an idle connection stays open")
	flags.Var(delay(&s.DrainDelay), "drain-delay", "time from not ready to the end of listening, for load balancers")
	flags.Var(duration(&s.StopTimeout), "stop-timeout", "time that requests have to finish when the server stops")
	flags.Var(duration(&f.closeTimeout), "close-timeout", "time that the last hits have after that to reach the disk")
}

// serve runs until ctx is done. What was opened first is closed last, so that
// every hit that was answered is in the journal.
func (f *serveFlags) serve(ctx context.Context, w *world) error {
	if f.clock == "event" {
		f.engine.Clock = weir.EventClock
	}
	f.engine.Gather = !f.ephemeral
	f.server.Logger = f.logger(w)
	if err := f.server.Validate(); err != nil {
		return err
	}
	if !f.ephemeral {
		if err := f.journal.Validate(); err != nil {
			return err
		}
		if err := f.checkJoin(); err != nil {
			return err
		}
		if err := f.fitMemory(); err != nil {
			return err
		}
	}
	f.limitMemory(w)
	if err := f.policies.load(); err != nil {
		return err
	}
	defer f.policies.close()
	engine, err := weir.New(f.engine)
	if err != nil {
		return err
	}
	if f.ephemeral {
		f.server.Logger.Warn("ephemeral: hits are kept in memory only, and are gone when this process ends")
		return f.stopped(errors.Join(f.serveHTTP(ctx, w, engine), engine.Close()))
	}
	// Before the data directory is opened, which may take long: until then the address
	// says so.
	starting := &phase{joining: f.joining()}
	f.journal.Join.Waiting = starting.say
	opening, err := server.Open(f.server, starting.now)
	if err != nil {
		return errors.Join(addressHint(err), engine.Close())
	}
	f.server.Opening = opening
	return f.stopped(errors.Join(f.serveDurable(ctx, w, engine, starting), opening.Close(), engine.Close()))
}

// stopped logs the last line of a clean stop.
func (f *serveFlags) stopped(err error) error {
	if err == nil {
		f.server.Logger.Info("stopped")
	}
	return err
}

// addressHint says which setting chooses another address.
func addressHint(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: is a server running already? choose another address with --http", err)
	}
	return err
}

func (f *serveFlags) serveDurable(ctx context.Context, w *world, engine *weir.Engine, starting *phase) error {
	log := f.server.Logger
	j, err := openJournal(ctx, engine, f.journal, log, starting)
	switch {
	case err != nil && ctx.Err() != nil:
		log.Info("an interrupt came before the data directory was open")
		return nil
	case err != nil:
		return err
	}
	f.server.Journal = served{j}
	if f.joining() {
		f.server.Cluster = among{j}
	}
	ctx, end := untilFailed(ctx, j)
	defer end()
	run := f.serveHTTP
	if f.joining() {
		run = func(ctx context.Context, w *world, engine *weir.Engine) error {
			return f.serveTogether(ctx, w, engine, j)
		}
	}
	return errors.Join(run(ctx, w, engine), j.Err(), closeJournal(j, f.closeTimeout, log))
}

func (f *serveFlags) serveHTTP(ctx context.Context, w *world, engine *weir.Engine) error {
	stop, err := f.policies.watch(ctx, engine, &f.server)
	if err != nil {
		return err
	}
	defer stop()
	s, err := server.New(engine, f.server)
	if err != nil {
		return err
	}
	if err := addressHint(s.Listen()); err != nil {
		return err
	}
	if w.serving != nil {
		w.serving(s.Addr())
	}
	defer notify(ctx, w, s.Handler(), f.server.Logger)()
	return s.Run(ctx)
}

func (f *serveFlags) logger(w *world) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(f.logLevel))); err != nil {
		panic(err) // the flag takes only levels
	}
	options := &slog.HandlerOptions{Level: level}
	if f.logFormat == "json" {
		options.ReplaceAttr = durationsAsText
		return slog.New(slog.NewJSONHandler(w.stderr, options))
	}
	return slog.New(slog.NewTextHandler(w.stderr, options))
}

// durationsAsText writes durations as text logs do, 1.5s: JSON would have a number
// of nanoseconds.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

const (
	// memoryFloor is what the process needs beside counters: the runtime, buffers
	// of requests, the connections.
	memoryFloor = 128 << 20
	// journalFloor is what the journal adds: hits that wait for it, the embedded
	// server, states on their way to a snapshot.
	journalFloor = 256 << 20
)

// limitMemory makes the garbage collector work harder before the process
// outgrows its budgets by half and its floor, and says in the log what that comes to.
// Who has set GOMEMLIMIT knows better.
func (f *serveFlags) limitMemory(w *world) {
	budget := f.engine.Memory + f.engine.LimitMemory + 3*f.engine.OnceMemory
	if _, set := w.env("GOMEMLIMIT"); set || budget <= 0 || budget > math.MaxInt64/2 {
		return
	}
	floor := memoryFloor + f.server.MaxBufferedBytes
	if !f.ephemeral {
		floor += journalFloor
	}
	most := budget + budget/2 + floor
	debug.SetMemoryLimit(most)
	f.server.Logger.Info("memory", "counters", units.FormatSize(f.engine.Memory), "limits", units.FormatSize(f.engine.LimitMemory),
		"process", units.FormatSize(most))
}
