package service

import (
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service/access"
	"github.com/weir-counter/weir/service/admin"
	"github.com/weir-counter/weir/service/decisions"
	"github.com/weir-counter/weir/service/doors"
	"github.com/weir-counter/weir/service/health"
	"github.com/weir-counter/weir/service/ingest"
	"github.com/weir-counter/weir/service/live"
	"github.com/weir-counter/weir/service/livelog"
	"github.com/weir-counter/weir/service/pools"
	"github.com/weir-counter/weir/service/reads"
	"github.com/weir-counter/weir/service/sources"
	"github.com/weir-counter/weir/service/storage"
)

// The rooms whose methods are those of a Service.
type (
	// Access says who calls, and what that one may do: WithToken, WithPassword, WithCertificate, WithName, Identify, ...
	Access = access.Service
	// Ingestion takes hits: Ingest, CheckBatch, Hit, Verdict, Once, EnterDurable, Sync, LeaveDurable.
	Ingestion = ingest.Service
	// Reading answers questions about keys: Count, Rate, Series, Aligned, Top, AlignedTop, Keys, Batch, Export.
	Reading = reads.Service
	// Deciding asks limits and changes what keys have used: Allow, Reserve, Settle, Refund, ResetLimit, GrantLimit,
	// TakePermit, Why, Who, Limits, LimitKeys, ...
	Deciding = decisions.Service
	// Administration is for operators: Stats, Nodes, Regions, Delete, DeletePrefix, Remove, Forget, Backup, Restore.
	Administration = admin.Service
	// Watching is OpenLog and LogView.
	Watching = live.Service
	// Health is Alarms and Ready.
	Health = health.Service
)

// Service answers for one engine. Create it with New; it may be used by many goroutines,
// and does not close the engine. Its methods are those of its rooms, and the few below.
type Service struct {
	*Access
	*Ingestion
	*Reading
	*Deciding
	*Administration
	*Watching
	*Health

	// Pools are the ceilings, for doors to take places of.
	Pools *Pools

	backend Backend
	cfg     Config // defaults applied, valid
	sources *sources.Sources
	doors   *doors.List
}

// New returns a Service that answers from b. It fails with a *weir.Error of
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
	places := pools.New(pools.Bounds{InFlight: cfg.MaxInFlight, Durable: cfg.MaxDurable, BufferedBytes: cfg.MaxBufferedBytes, BodyBytes: cfg.MaxBodyBytes})
	gate, kept, attached := access.NewGate(b.Tokens, cfg.Audit), storage.Of(b.Journal), new(doors.List)
	from := sources.New(b.Engine, b.Answers, b.Cluster, b.Regions, places)
	log := livelog.New(from.Wall)
	wrong := health.New(health.Parts{
		Engine: b.Engine, Sources: from, Storage: kept, Pools: places, Doors: attached,
		History: b.History, Regions: b.Regions, Tokens: b.Tokens, PolicyFile: b.PolicyFile, Kept: b.Kept, More: b.Alarms,
	})
	return &Service{
		Access: access.New(gate),
		Ingestion: ingest.New(ingest.Parts{
			Engine: b.Engine, Gate: gate, Storage: kept, Pools: places, Log: cfg.Logger, Live: log,
			MaxBatch: cfg.MaxBatch, DurableTimeout: cfg.DurableTimeout,
		}),
		Reading: reads.New(reads.Parts{
			Gate: gate, Sources: from, Pools: places, History: b.History, Regions: b.Regions, Log: cfg.Logger,
			MaxAnswers: cfg.MaxAnswers,
		}),
		Deciding: decisions.New(decisions.Parts{
			Engine: b.Engine, Gate: gate, Sources: from, Pools: places, Policies: b.Policies, Doors: attached,
			PolicyFile: b.PolicyFile, Kept: b.Kept, Node: b.Node, Log: cfg.Logger, MaxInlinePer: cfg.MaxInlinePer, Live: log, Warnings: b.Warnings,
		}),
		Administration: admin.New(admin.Parts{
			Engine: b.Engine, Gate: gate, Sources: from, Storage: kept, Pools: places, Health: wrong,
			History: b.History, Regions: b.Regions, Cluster: b.Cluster, Version: cfg.Version, Log: cfg.Logger,
		}),
		Watching: live.New(gate, log, b.Node),
		Health:   wrong,
		Pools:    places, backend: b, cfg: cfg, sources: from, doors: attached,
	}, nil
}

// Config is the settings of s, with their defaults.
func (s *Service) Config() Config { return s.cfg }

// Backend is what s answers from, for metrics: a door that serves clients asks s itself.
func (s *Service) Backend() Backend { return s.backend }

// Attach adds a door. It is for whoever puts a node together, before the doors answer.
func (s *Service) Attach(d Door) { s.doors.Attach(d) }

// Doors are the figures of those that are attached.
func (s *Service) Doors() []DoorFigures { return s.doors.Figures() }

// Now is the second that questions without a time are asked at: sources.Sources.Now.
func (s *Service) Now() time.Time { return s.sources.Now() }

// Freshness is that of this node.
func (s *Service) Freshness() api.Freshness { return s.sources.Freshness() }
