package weir

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/admission"
	"github.com/weir-counter/weir/internal/clock"
	"github.com/weir-counter/weir/internal/friend"
	"github.com/weir-counter/weir/internal/keyspace"
	"github.com/weir-counter/weir/internal/receipts"
	"github.com/weir-counter/weir/window"
)

// Engine counts hits per key, within a memory budget. It is safe for many
// goroutines, and must be closed.
type Engine struct {
	engineSide

	cfg      Config
	clock    *clock.Clock
	keys     *keyspace.Keyspace
	total    Counter // AllKeys
	evicted  evictedOfAll
	receipts *receipts.Table
	limits   *admission.Table
	side     side

	refused refusals
	past    atomic.Pointer[func(key string, second int64) bool] // what history keeps of hits that are too late; nil: nothing

	closed  atomic.Bool
	stop    context.CancelFunc
	janitor sync.WaitGroup
}

// refusals count hits, weighted, that were late or not counted.
type refusals struct{ late, tooLate, forHistory, tooFarAhead atomic.Uint64 }

// New returns an Engine, or an Error with CodeInvalidConfig that names the
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
	c := clock.New(cfg.Clock == EventClock, cfg.Now, int64((cfg.MaxAhead+time.Second-1)/time.Second), int64(cfg.Retention/time.Second))
	e := &Engine{
		cfg:   cfg,
		clock: c,
		keys:  keyspace.New(keyspace.Config{Partitions: cfg.Partitions, Memory: cfg.Memory, Gather: cfg.Gather, MaxWaiting: cfg.MaxWaiting, Clock: c, Empty: empty}),
		total: Counter{window: empty, clock: c},
	}
	e.limits = admission.New(cfg.Partitions, cfg.LimitMemory, cfg.Gather, clock.NewLimits(cfg.Now, cfg.Elapsed, &c.Wall))
	e.receipts = receipts.New(cfg.OnceMemory, cfg.Gather, &e.limits.Clock)
	e.side.engine = e
	e.engineSide = friend.Make(&e.side)
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.janitor.Go(func() { e.keepHouse(ctx) })
	return e, nil
}

// Close ends the janitor. Later hits are refused with CodeClosed; reads go on.
func (e *Engine) Close() error {
	e.closed.Store(true)
	e.stop()
	e.janitor.Wait()
	return nil
}

// Config is what the engine was made with, defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// Now is the engine's clock, in whole seconds: the time of day, or with
// EventClock the second of the newest hit, the zero Time before the first.
func (e *Engine) Now() time.Time {
	if second := e.clock.Now(); second >= 0 {
		return time.Unix(second, 0)
	}
	return time.Time{}
}
