package main

import (
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/server"
)

// serveFlags are the flags of weir serve, with their defaults.
type serveFlags struct {
	engine    weir.Config
	server    server.Config
	clock     string
	logLevel  string
	logFormat string
	config    string
}

func newServe(w *world) *cobra.Command {
	f := serveFlags{
		engine: weir.Config{Retention: 30 * 24 * time.Hour, Memory: 1 << 30, MaxAhead: 5 * time.Second},
		server: server.Config{
			Addr: "127.0.0.1:8080", Version: buildVersion(),
			MaxBodyBytes: 16 << 20, MaxLineBytes: 8 << 10, MaxBatch: 100_000, MaxAnswers: 1000,
			MaxInFlight: 256, MaxConns: 4096,
			ReadTimeout: 30 * time.Second, WriteTimeout: 60 * time.Second, IdleTimeout: 2 * time.Minute,
			StopTimeout: 15 * time.Second,
		},
		clock: "wall", logLevel: "info", logFormat: "text",
	}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server",
		Long: `Run a server that takes hits and answers questions about them over HTTP.
Its API is described at /docs and /openapi.json.

Every flag may be a variable (--max-ahead is WEIR_MAX_AHEAD), and a line of
the YAML file that --config names:

  http: 127.0.0.1:8080
  retention: 7d
  memory: 2GiB

Durations are written 90s, 5m, 24h, 7d, 1w or in plain seconds, sizes 512MiB.
It stops at an interrupt, after the requests that it has begun to answer.`,
		Example: "  weir serve --retention 7d --memory 512MiB",
		Args:    cobra.NoArgs,
		RunE: work(w, func(cmd *cobra.Command, _ []string, _ sources) error {
			return f.serve(cmd, w)
		}),
	}
	s, flags := &f.server, cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&s.Addr, "http", s.Addr, "address to listen on, host:port")
	choice(cmd, &f.clock, "clock", "what is now: the time of day, or the newest hit", "wall", "event")
	flags.Var(duration(&f.engine.Retention), "retention", "how long hits are kept, 1s to 1000000000s")
	flags.Var(size(&f.engine.Memory), "memory", "memory budget of the counters; the process needs about half as much again")
	flags.Var(duration(&f.engine.MaxAhead), "max-ahead", "how far in the future a hit may be")
	flags.StringVar(&f.config, configFlag, "", "YAML file with settings")
	choice(cmd, &f.logLevel, "log-level", "the least that is logged", "debug", "info", "warn", "error")
	choice(cmd, &f.logFormat, "log-format", "how it is logged", "text", "json")
	flags.Var(size(&s.MaxBodyBytes), "max-body-bytes", "largest body of hits")
	flags.Var(number(&s.MaxLineBytes), "max-line-bytes", "longest line of a body")
	flags.Var(number(&s.MaxBatch), "max-batch", "most lines of a body")
	flags.Var(number(&s.MaxAnswers), "max-answers", "most keys times windows of one question")
	flags.Var(number(&s.MaxInFlight), "max-in-flight", "most requests at the same time")
	flags.Var(number(&s.MaxConns), "max-conns", "most open connections")
	flags.Var(duration(&s.ReadTimeout), "read-timeout", "time to send a request")
	flags.Var(duration(&s.WriteTimeout), "write-timeout", "time from a request to the end of its answer")
	flags.Var(duration(&s.IdleTimeout), "idle-timeout", "time an idle connection stays open")
	flags.Var(delay(&s.DrainDelay), "drain-delay", "time from not ready to the end of listening, for load balancers")
	flags.Var(duration(&s.StopTimeout), "stop-timeout", "time that requests have to finish when the server stops")
	return cmd
}

func (f *serveFlags) serve(cmd *cobra.Command, w *world) error {
	if f.clock == "event" {
		f.engine.Clock = weir.EventClock
	}
	f.server.Logger = f.logger(w)
	limitMemory(f.engine.Memory, w)
	engine, err := weir.New(f.engine)
	if err != nil {
		return err
	}
	s, err := server.New(engine, f.server)
	if err != nil {
		return errors.Join(err, engine.Close())
	}
	if err := s.Listen(); err != nil {
		return errors.Join(err, engine.Close())
	}
	if w.serving != nil {
		w.serving(s.Addr())
	}
	return errors.Join(s.Run(cmd.Context()), engine.Close())
}

func (f *serveFlags) logger(w *world) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(f.logLevel))); err != nil {
		panic(err) // the flag takes only levels
	}
	options := &slog.HandlerOptions{Level: level}
	if f.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w.stderr, options))
	}
	return slog.New(slog.NewTextHandler(w.stderr, options))
}

// memoryFloor is what the process needs beside counters: the runtime, buffers
// of requests, the connections.
const memoryFloor = 128 << 20

// limitMemory makes the garbage collector work harder before the process
// outgrows its budget by half. Who has set GOMEMLIMIT knows better.
func limitMemory(budget int64, w *world) {
	if _, set := w.env("GOMEMLIMIT"); set || budget <= 0 || budget > math.MaxInt64/2 {
		return
	}
	debug.SetMemoryLimit(budget + budget/2 + memoryFloor)
}
