package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/internal/engine/counters"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/window"
)

// Engine counts hits per key, within a memory budget. It is safe for many goroutines, and must be closed.
type Engine struct {
	cfg      Config
	clock    *keyspace.Clock
	keys     *keyspace.Keyspace
	total    Counter // AllKeys
	evicted  evictedOfAll
	receipts *keyspace.Receipts
	limits   *admission.Table
	counters *counters.Table

	refused refusals
	past    atomic.Pointer[func(key string, second int64) bool] // what history keeps of hits that are too late; nil: nothing

	closed  atomic.Bool
	stop    context.CancelFunc
	janitor sync.WaitGroup
}

// refusals count hits, weighted, that were late or not counted.
type refusals struct{ late, tooLate, forHistory, tooFarAhead atomic.Uint64 }

// New returns an Engine, or an Error with api.CodeInvalidConfig that names the
// field. It starts one goroutine, the janitor, which Close ends.
func New(cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	empty, err := window.New(int64(cfg.Retention / time.Second))
	if err != nil {
		return nil, err
	}
	c := keyspace.NewClock(cfg.Clock == EventClock, cfg.Now, int64((cfg.MaxAhead+time.Second-1)/time.Second), int64(cfg.Retention/time.Second))
	e := &Engine{
		cfg:   cfg,
		clock: c,
		keys:  keyspace.New(keyspace.Config{Partitions: cfg.Partitions, Memory: cfg.Memory, Gather: cfg.Gather, MaxWaiting: cfg.MaxWaiting, Clock: c, Empty: empty}),
		total: Counter{window: empty, clock: c},
	}
	e.limits = admission.New(cfg.Partitions, cfg.LimitMemory, cfg.Gather, keyspace.NewClockLimits(cfg.Now, cfg.Elapsed, &c.Wall))
	e.receipts = keyspace.NewReceipts(cfg.OnceMemory, cfg.Gather, &e.limits.Clock)
	e.counters = counters.New(counters.Config{
		Bound: cfg.LimitMemory / countersOfLimits, Partitions: cfg.Partitions, PartitionOf: e.keys.PartitionOf, Clock: &e.limits.Clock, Ahead: e.limits.Clock.Ahead, Journaled: cfg.Gather, Refuses: e.limits.RefusesChange,
	})
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.janitor.Go(func() { e.keepHouse(ctx) })
	return e, nil
}

// Close ends the janitor. Later hits are refused with api.CodeClosed; reads go on.
func (e *Engine) Close() error {
	e.closed.Store(true)
	e.stop()
	e.janitor.Wait()
	return nil
}

// countersOfLimits is the part of Config.LimitMemory that counters may take in addition to it, as a divisor.
const countersOfLimits = 4

// Limits are the limits of keys, and what keys have used of them.
func (e *Engine) Limits() *admission.Table { return e.limits }

// Limit returns the engine's limit of a name: see admission.Table.Limit.
func (e *Engine) Limit(name string, l Limit) (*KeyedLimit, error) { return e.limits.Limit(name, l) }

// Keyspace is the keys of the engine. Of AllKeys it knows only the sum of partitions.
func (e *Engine) Keyspace() *keyspace.Keyspace { return e.keys }

// Receipts are the receipts of requests with an idempotency key, and the positions of topics.
func (e *Engine) Receipts() *keyspace.Receipts { return e.receipts }

// Counters are the counters of Redis commands.
func (e *Engine) Counters() *counters.Table { return e.counters }

// Config is what the engine was made with, defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// Now is the engine's clock, in whole seconds: the time of day, or with EventClock the second of the newest hit. Before
// the first hit, an EventClock shows the zero Time.
func (e *Engine) Now() time.Time {
	if second := e.clock.Now(); second >= 0 {
		return time.Unix(second, 0)
	}
	return time.Time{}
}

// sweepPeriod is how long one round of the janitor takes: a tenth of the retention, but at least ten seconds and at
// most ten minutes. Sweeping ten million keys then takes far below 1 % of a core.
func (e *Engine) sweepPeriod() time.Duration {
	return min(max(e.cfg.Retention/10, 10*time.Second), 10*time.Minute)
}

// keepHouse lets keys go whose retention is over and limits that are not in use,
// and cools hot keys, until ctx is done. It looks at a few partitions a second.
func (e *Engine) keepHouse(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var due float64 // partitions
	perTick := float64(e.cfg.Partitions) / e.sweepPeriod().Seconds()
	for next, tick := 0, 0; ; tick++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for due += perTick; due >= 1; due-- {
			e.keys.Expire(next)
			e.limits.Expire(next)
			next = (next + 1) % e.cfg.Partitions
		}
		e.limits.Lapse()
		if tick%10 == 9 {
			e.keys.CoolDown()
			e.lookAhead()
		}
	}
}

// lookAhead looks after what is ahead of the clock, which may have been set.
func (e *Engine) lookAhead() {
	e.keys.LookAhead()
	e.total.keep()
}

// horizon is the second at which the retention begins. Hits at it or before are refused as too late. The full count of
// a window that reaches back beyond it is therefore unknown.
type horizon struct {
	second, retention int64
	slack             int64 // seconds by which the clocks of the node that asks and the one that answers may differ
}

// horizon returns the present horizon of all keys.
func (e *Engine) horizon() horizon {
	return horizon{e.clock.Now() - e.clock.Retention, e.clock.Retention, e.clock.Ahead}
}

// limits limits the count of the window (at-seconds, at] to what is known. A window that is not longer than the
// retention may begin a little before the horizon, because the second may have changed since the question. It still has
// all hits that were accepted.
func (h horizon) limits(c Count, at, seconds int64) Count {
	from := max(at-seconds, -1) // nothing is before 1970
	if from < h.second && (seconds > h.retention || from < h.second-h.slack) {
		return c.AtLeast()
	}
	return c
}

// Stats are an engine's figures since it was made. Hits are weighted by their n, and exclude keys with SeparatePrefix.
type Stats struct {
	Figures
	keyspace.ReceiptStats

	ForHistory  uint64 `metric:"weir_history_hits_total" doc:"Hits older than the retention. They are in history only, and not in weir_hits_total."`
	Quarantined uint64 `metric:"weir_quarantined_hits_total" doc:"Hits from other nodes, snapshots or earlier runs that are minutes ahead of this node's clock. They count when their second comes."`

	NewestQuarantined time.Time // when, by the wall clock, the newest of Quarantined was brought; zero: none

	DistinctKeys  int   `metric:"weir_distinct_keys" doc:"Keys whose hits had ids."`
	DistinctBytes int64 `metric:"weir_distinct_bytes" doc:"Part of weir_memory_bytes for ids, at most half of the budget."`

	HotKeys      int   `metric:"weir_hot_keys" doc:"Keys with slots instead of single hits."`
	InlineBytes  int64 `metric:"weir_inline_limit_bytes" doc:"Part of weir_limit_bytes for limits sent with requests, at most a quarter of the budget."`
	InlineBudget int64 // of these

	ClockCorrection  time.Duration `metric:"weir_clock_correction_seconds" doc:"Seconds that this node adds to its machine's time of day to agree with most other nodes."`
	LimitClockBehind time.Duration `metric:"weir_limit_clock_behind_seconds" doc:"Seconds by which the time of day has moved ahead of the limits' clock since the start, because it was set or the machine was suspended. Limits are not affected."`

	Waiting      int64 `metric:"weir_waiting_deltas" doc:"Hits that wait for the journal, one for each key and second."`
	WaitingBytes int64 // what they take there, at most, and keys of the last cut if they are hit again
}

// Figures are the part of Stats that library users see, since the engine was made. Hits are weighted by their n.
type Figures struct {
	Hits        uint64 `metric:"weir_hits_total" doc:"Hits counted, including late ones, without decisions of limits."`
	Late        uint64 `metric:"weir_late_hits_total" doc:"Hits counted that were older than the newest of their key."`
	TooLate     uint64 `metric:"weir_too_late_hits_total" doc:"Hits not counted: older than the retention."`
	TooFarAhead uint64 `metric:"weir_too_far_ahead_hits_total" doc:"Hits refused: too far in the future."`

	Keys        int    `metric:"weir_keys" doc:"Keys held."`
	EvictedKeys uint64 `metric:"weir_evicted_keys_total" doc:"Keys dropped to keep the memory budget."`
	EvictedHits uint64 `metric:"weir_evicted_hits_total" doc:"Hits that left with evicted keys."`
	ExpiredKeys uint64 `metric:"weir_expired_keys_total" doc:"Keys dropped because all their hits were older than the retention."`

	LimitStates  int    `metric:"weir_limit_states" doc:"Keys with usage of limits, counted for each limit, and some idle ones."`
	LimitBytes   int64  `metric:"weir_limit_bytes" doc:"Memory of weir_limit_states, as the budget counts it."`
	LimitBudget  int64  `metric:"weir_limit_budget_bytes" doc:"The budget of weir_limit_bytes."`
	LimitRefused uint64 `metric:"weir_limit_refused_total" doc:"Requests that could not be decided because --limit-memory was full of limits in use."`

	Bytes        int64     `metric:"weir_memory_bytes" doc:"Memory of the keys, as the budget counts it."`
	MemoryBudget int64     `metric:"weir_memory_budget_bytes" doc:"The memory budget."`
	Partitions   int       // Config.Partitions
	Newest       time.Time // second of the newest hit; the zero Time before the first
}

// Stats returns the figures; each is exact, but they are not taken at one instant.
func (e *Engine) Stats() Stats {
	k, l := e.keys.Stats(), e.limits.Stats()
	s := Stats{
		Figures: Figures{
			Hits: e.total.total(), Late: e.refused.late.Load(), TooLate: e.refused.tooLate.Load(), TooFarAhead: e.refused.tooFarAhead.Load(),
			Keys: k.Keys, EvictedKeys: k.EvictedKeys, EvictedHits: k.EvictedHits, ExpiredKeys: k.ExpiredKeys,
			LimitStates: l.States, LimitBytes: l.Bytes, LimitBudget: l.Budget, LimitRefused: l.Refused,
			Bytes: k.Bytes, MemoryBudget: e.cfg.Memory, Partitions: e.cfg.Partitions,
		},
		ForHistory: e.refused.forHistory.Load(), HotKeys: k.HotKeys, DistinctKeys: k.DistinctKeys, DistinctBytes: k.DistinctBytes, Waiting: k.Waiting, WaitingBytes: k.WaitingBytes,
		InlineBytes: l.Inline, InlineBudget: l.InlineBudget, ReceiptStats: e.receipts.Stats(),
	}
	s.ClockCorrection, s.LimitClockBehind = e.Wall().Corrected(), e.LimitClockBehind()
	if hits, at := e.clock.Noted(); hits > 0 {
		s.Quarantined, s.NewestQuarantined = hits, time.Unix(at, 0)
	}
	if s.Hits > 0 {
		s.Newest = time.Unix(e.total.newest(), 0)
	}
	return s
}
