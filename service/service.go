package service

import (
	"log/slog"
	"sync/atomic"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/recent"
	"github.com/weir-counter/weir/policy"
)

// Config is what a Service is wired to, and its ceilings. All ceilings must be set: doors
// validate them, since they name the settings.
type Config struct {
	Journal Journal // nil: the server is ephemeral
	Cluster Cluster // nil: this node is alone
	Answers Answers // nil: the engine answers, which holds all keys

	MaxAnswers       int   // keys times windows of one question
	MaxInFlight      int   // requests under way, of each kind
	MaxDurable       int   // requests that wait for the disk
	MaxBodyBytes     int64 // of one body
	MaxBufferedBytes int64 // of all bodies that arrive

	Policies     *policy.Live                // the limits that Allow asks
	PolicyFile   func() *api.PolicyFileState // what is known of their file; nil: they come from none
	MaxInlinePer time.Duration               // the longest period of a limit that a request brings along

	DurableTimeout time.Duration // how long a durable request waits for the disk

	Logger  *slog.Logger
	Version string
}

// Service answers for one engine. Create it with New; it may be used by many goroutines,
// and does not close the engine.
type Service struct {
	// Pools are the ceilings, for doors to take places of.
	Pools *Pools

	engine  *weir.Engine
	cfg     Config
	log     *slog.Logger
	started time.Time

	answers   Answers
	lastFresh recent.Value[Fresh]
	decisions *decisions

	notDurable atomic.Uint64
	// waitedInVain: the journal fails, and somebody has waited for DurableTimeout since.
	waitedInVain atomic.Bool
}

// New returns a Service for engine.
func New(engine *weir.Engine, cfg Config) *Service {
	s := &Service{Pools: newPools(&cfg), engine: engine, cfg: cfg, log: cfg.Logger, started: time.Now(), decisions: newDecisions(cfg.Policies)}
	if s.answers = cfg.Answers; s.answers == nil {
		s.answers = held{s}
	}
	return s
}

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
