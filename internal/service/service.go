// Package service is what every listener of Weir calls. A listener speaks a protocol (HTTP in package httpapi), parses,
// calls a method of Service, and writes what it returns. The parts of the service are the packages below:
//
//   - access: who calls, and what that caller may do
//   - ingest: hits
//   - queries: questions about keys
//   - limits: decisions, and what keys have used
//   - admin: the work of operators
//
// Service embeds the parts, so that a listener needs one type. Each part declares the types of its questions; package
// api declares the types of answers.
//
// Invariants. A method returns answers of package api, ready to be written. It fails with an *api.Error only, whose
// Code a listener maps to its protocol once. No method waits longer than its context. Everything that can be used up
// has a Pool. A listener takes a place of Pools.Questions or Pools.Admin before it asks, and keeps it until its client
// has taken the answer; only the listener knows when that is.
//
// The service works with the engine and the policies. It knows the journal, the cluster, regions and history through
// interfaces that its parts declare (ingest.Journal, queries.Cluster, ...). Their implementations answer with types of
// package api, and fail with *api.Error if a client should know why. The service knows no protocol: it imports neither
// net/http nor a framework. No part imports this package.
package service

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/activity"
	"github.com/weir-counter/weir/internal/service/admin"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/limit"
)

// The parts whose methods a Service has.
type (
	// Access says who calls, and what the caller may do.
	Access = access.Service
	// Ingestion takes hits.
	Ingestion = ingest.Service
	// Reading answers questions about keys.
	Reading = queries.Service
	// Deciding asks limits, and changes what keys have used.
	Deciding = limits.Service
	// Administration is for operators.
	Administration = admin.Service
	// Watching shows hits and denials as they come.
	Watching = activity.Live
	// Health says what is wrong, and whether to send requests.
	Health = admin.Health
)

// Service answers for one engine. Create it with New; it may be used by many goroutines, and does not close the engine.
// It has the methods of its parts, and the few below.
type Service struct {
	*Access
	*Ingestion
	*Reading
	*Deciding
	*Administration
	*Watching
	*Health

	// Pools are the ceilings, for listeners to take places of.
	Pools *access.Pools

	backend   Backend
	cfg       Config // defaults applied, valid
	sources   *queries.Sources
	listeners *access.ListenerList
}

// New returns a Service that answers from b. It fails with a *engine.Error of
// CodeInvalidConfig that names the field at fault.
func New(b Backend, cfg Config) (*Service, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if b.Policies == nil {
		none, err := admit.NewLive(b.Engine, nil)
		if err != nil {
			return nil, err
		}
		b.Policies = none
	}
	places := access.NewPools(access.PoolBounds{InFlight: cfg.MaxInFlight, Durable: cfg.MaxDurable, BufferedBytes: cfg.MaxBufferedBytes, BodyBytes: cfg.MaxBodyBytes})
	gate, kept, attached := access.NewGate(b.Tokens, cfg.Audit), ingest.StorageOf(b.Journal), new(access.ListenerList)
	from := queries.NewSources(b.Engine, b.Answers, b.Cluster, b.Regions, places)
	log := activity.NewLog(from.Wall)
	alarms := []func() []api.Alarm{kept.Alarms, places.Alarms, attached.Alarms, b.Tokens.Alarms, b.PolicyFile.Alarms, b.Kept.Alarms}
	if b.History != nil {
		alarms = append(alarms, b.History.Alarms)
	}
	if b.Alarms != nil {
		alarms = append(alarms, b.Alarms)
	}
	if b.Regions != nil {
		alarms = append(alarms, b.Regions.Alarms)
	}
	wrong := admin.NewHealth(from, append(alarms, func() []api.Alarm { return admin.MemoryAlarms(b.Engine.Stats()) })...)
	return &Service{
		Access: access.New(gate),
		Ingestion: ingest.New(ingest.Parts{
			Engine: b.Engine, Gate: gate, Storage: kept, Pools: places, Log: cfg.Logger, Live: log,
			MaxBatch: cfg.MaxBatch, DurableTimeout: cfg.DurableTimeout,
		}),
		Reading: queries.New(queries.Parts{
			Gate: gate, Sources: from, Pools: places, History: b.History, Regions: b.Regions, Log: cfg.Logger,
			MaxAnswers: cfg.MaxAnswers,
		}),
		Deciding: limits.New(limits.Parts{
			Engine: b.Engine, Gate: gate, Sources: from, Pools: places, Policies: b.Policies, Listeners: attached,
			PolicyFile: b.PolicyFile, Kept: b.Kept, Node: b.Node, Log: cfg.Logger, MaxInlinePer: cfg.MaxInlinePer, Live: log, Warned: b.Warned,
		}),
		Administration: admin.New(admin.Parts{
			Engine: b.Engine, Gate: gate, Sources: from, Storage: kept, Pools: places, Health: wrong,
			History: b.History, Regions: b.Regions, Cluster: b.Cluster, Version: cfg.Version, Log: cfg.Logger,
		}),
		Watching: activity.NewLive(gate, log, b.Node),
		Health:   wrong,
		Pools:    places, backend: b, cfg: cfg, sources: from, listeners: attached,
	}, nil
}

// Config is the settings of s, with their defaults.
func (s *Service) Config() Config { return s.cfg }

// Backend is what s answers from, for metrics: a listener that serves clients asks s itself.
func (s *Service) Backend() Backend { return s.backend }

// Attach adds a listener. Package node calls it before the listeners answer.
func (s *Service) Attach(d access.Listener) { s.listeners.Attach(d) }

// TimeRequests and Timer are of access.ListenerList.
func (s *Service) TimeRequests(f func(listener, command string) access.Timer) {
	s.listeners.TimeRequests(f)
}

func (s *Service) Timer(listener, command string) access.Timer {
	return s.listeners.Timer(listener, command)
}

// Listeners are the figures of those that are attached.
func (s *Service) Listeners() []access.ListenerFigures { return s.listeners.Figures() }

// Now is the second that questions without a time are asked at: queries.Sources.Now.
func (s *Service) Now() time.Time { return s.sources.Now() }

// Own answers for all hits of this region, for parts of the server: callers are not asked for.
func (s *Service) Own() queries.Answers { return s.sources.Own() }

func (s *Service) Freshness() api.Freshness { return s.sources.Freshness() }

// Backend is what a Service answers from. Whoever puts a node together fills it; Engine must be given.
type Backend struct {
	Engine  *engine.Engine
	Journal ingest.Journal  // nil: hits are kept in memory only
	Cluster queries.Cluster // nil: this node counts alone
	Answers queries.Answers // nil: the engine answers, which holds all keys
	Node    string          // this node's name in a cluster; "": it counts alone
	Regions queries.Regions // nil: this server counts for no region
	History queries.History // nil: there are windows only

	Tokens *access.Tokens // who may do what; nil: everybody may do everything

	// Alarms returns alarms about what the service does not know itself, such as certificates; nil: there are none.
	Alarms func() []api.Alarm

	Policies   *admit.Live          // the limits that Allow asks; nil: only those that requests bring along
	PolicyFile *access.PolicyFile   // that Policies come from; nil: from none
	Kept       *access.KeptPolicies // those that were put by API; nil: none can be
	Warned     func(*admit.Result)  // gets each result that warns; nil: nobody does

	// Figures return structs whose fields are metrics by their tags (package metrics): of the journal, and of what nodes ask each other.
	Figures []func() any

	// Counters is the node of a cluster that keeps the counters of Redis commands; nil: this one does.
	Counters CounterOwner
}

// CounterOwner is the node that keeps the counters of Redis commands for all nodes: package cluster/limits knows it.
type CounterOwner interface {
	// Run has the owner run a request. After an error of api.CodeOwnerUnreachable it was not run; after another one, that
	// is not known.
	Run(request []byte) (reply []byte, err error)

	// Serve has this node run requests with f while it is the owner. wrote says that counters changed.
	Serve(f func(request []byte) (reply []byte, wrote bool))
}

// Config is the ceilings and times of a Service, which hold for all its listeners together.
// The zero value of each field stands for its default.
type Config struct {
	// MaxBodyBytes bounds one body of hits, before and after it is decompressed. Default 16 MiB, 1 KiB to 1 GiB.
	MaxBodyBytes int64
	// MaxBatch bounds the lines of one body; of one with more, none is counted. Default 100,000, 1 to 10,000,000.
	MaxBatch int
	// MaxAnswers bounds keys times windows of one question. Default 1000, 1 to 100,000.
	MaxAnswers int
	// MaxInFlight bounds the requests handled at the same time. It applies to each kind separately: bodies of hits
	// being counted, large bodies that arrive, decisions, and questions. More requests are refused at once as
	// overloaded. Health and metrics are not counted. Default 256, 1 to 100,000.
	MaxInFlight int
	// MaxDurable bounds the requests that wait for the disk at the same time. Those beyond
	// it are refused, and not counted. Default four times MaxInFlight, 1 to 100,000.
	MaxDurable int
	// MaxBufferedBytes bounds the memory of all large bodies of hits that are being read: they are counted once they
	// are whole. Bodies beyond it are refused. Default 512 KiB x MaxInFlight, or twice MaxBodyBytes if that is more;
	// twice MaxBodyBytes to 1 TiB.
	MaxBufferedBytes int64

	// MaxInlinePer is the longest period of a limit that a request brings along, and the
	// longest per * burst / n. Default 24 h, 1 ms to limit.MaxPer.
	MaxInlinePer time.Duration
	// DurableTimeout bounds the time that the answer to a durable hit waits for the disk. Default 10 s, 1 ms to 24 h.
	DurableTimeout time.Duration

	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
	// Audit gets a record of each action of role admin: who, action, target, outcome, remote. Default Logger.
	Audit *slog.Logger
	// Version is what answers say of the program. Default "dev".
	Version string
}

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c Config) WithDefaults() Config {
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, 16<<20)
	c.MaxBatch = cmp.Or(c.MaxBatch, 100_000)
	c.MaxAnswers = cmp.Or(c.MaxAnswers, 1000)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 256)
	c.MaxDurable = cmp.Or(c.MaxDurable, min(4*c.MaxInFlight, 100_000))
	c.MaxBufferedBytes = cmp.Or(c.MaxBufferedBytes, max(int64(c.MaxInFlight)<<19, 2*c.MaxBodyBytes))
	c.MaxInlinePer = cmp.Or(c.MaxInlinePer, 24*time.Hour)
	c.DurableTimeout = cmp.Or(c.DurableTimeout, 10*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Audit = cmp.Or(c.Audit, c.Logger)
	c.Version = cmp.Or(c.Version, "dev")
	return c
}

// Validate returns a *engine.Error of CodeInvalidConfig that names the first field outside what it may be. New does the
// same: this is for code that opens other things before it.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if err := settings.CheckNumbers(
		settings.Number{Field: "MaxBodyBytes", Value: c.MaxBodyBytes, Low: 1 << 10, High: 1 << 30},
		settings.Number{Field: "MaxBatch", Value: int64(c.MaxBatch), Low: 1, High: 10_000_000},
		settings.Number{Field: "MaxAnswers", Value: int64(c.MaxAnswers), Low: 1, High: 100_000},
		settings.Number{Field: "MaxInFlight", Value: int64(c.MaxInFlight), Low: 1, High: 100_000},
		settings.Number{Field: "MaxDurable", Value: int64(c.MaxDurable), Low: 1, High: 100_000},
		settings.Number{Field: "MaxBufferedBytes", Value: c.MaxBufferedBytes, Low: 2 * c.MaxBodyBytes, High: 1 << 40},
	); err != nil {
		return err
	}
	return settings.CheckDurations(
		settings.Duration{Field: "MaxInlinePer", Value: c.MaxInlinePer, Low: time.Millisecond, High: limit.MaxPer},
		settings.Duration{Field: "DurableTimeout", Value: c.DurableTimeout, Low: time.Millisecond, High: settings.MaxTimeout},
	)
}
