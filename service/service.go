package service

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/service/accounts"
	"github.com/weir-counter/weir/service/denials"
	"github.com/weir-counter/weir/service/outcomes"
	"github.com/weir-counter/weir/service/permits"
	"github.com/weir-counter/weir/service/pools"
)

// Service answers for one engine. Create it with New; it may be used by many goroutines,
// and does not close the engine.
type Service struct {
	// Pools are the ceilings, for doors to take places of.
	Pools *Pools

	engine  *weir.Engine
	backend Backend
	cfg     Config // defaults applied, valid
	log     *slog.Logger
	started time.Time
	begun   int64 // started, by the clock that limits are kept by, in ns

	storage   storage
	peers     peers
	answers   Answers
	policies  *policy.Live
	decisions *outcomes.Counts
	requests  requests
	doors     []Door // does not change once they answer
	accounts  *accounts.Accounts
	denials   *denials.Ring
	permits   *permits.Table
	reserving sync.Map // IDs of reservations that are being made

	// waitedInVain: the journal fails, and somebody has waited for DurableTimeout since.
	waitedInVain atomic.Bool
}

// New returns a Service that answers from b. It fails with a *weir.Error of
// CodeInvalidConfig that names the field at fault.
func New(b Backend, cfg Config) (*Service, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if b.Policies == nil {
		none, err := policy.NewLive(b.Engine, nil)
		if err != nil {
			return nil, err
		}
		b.Policies = none
	}
	s := &Service{
		Pools: pools.New(pools.Bounds{InFlight: cfg.MaxInFlight, Durable: cfg.MaxDurable, BufferedBytes: cfg.MaxBufferedBytes, BodyBytes: cfg.MaxBodyBytes}), engine: b.Engine, backend: b, cfg: cfg, log: cfg.Logger, started: time.Now(), begun: limits.Lending(b.Engine).Now(),
		storage: storageOf(b.Journal), answers: b.Answers, policies: b.Policies, decisions: outcomes.New(b.Policies), accounts: accounts.New(),
		denials: denials.New(b.Node), permits: permits.New(),
	}
	if s.answers == nil {
		s.answers = held{s}
	}
	s.peers = s.peersOf(b.Cluster)
	return s, nil
}

// Config is the settings of s, with their defaults.
func (s *Service) Config() Config { return s.cfg }

// Backend is what s answers from, for metrics: a door that serves clients asks s itself.
func (s *Service) Backend() Backend { return s.backend }

// Now is the second that questions without a time are asked at. It is the
// engine's second as a whole, hits of its remaining fraction included: a
// window that ended within a second could not be exact. An engine on event
// time that has seen no hit has no time yet; any answers zero then.
func (s *Service) Now() time.Time {
	now := s.engine.Now()
	if now.IsZero() {
		now = time.Now()
	}
	return now.Truncate(time.Second)
}

// wall is the engine's time of day, also where it counts by event time.
func (s *Service) wall() time.Time { return replication.Of(s.engine).Wall() }
