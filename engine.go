package weir

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/weir-counter/weir/window"
)

// Engine counts hits per key, within a memory budget. It is safe for many
// goroutines, and must be closed.
type Engine struct {
	cfg         Config
	clock       *clock
	emptyWindow window.Window
	partitions  []partition
	seed        maphash.Seed // of the tables; not of the partitions
	hot         hotKeys
	total       Counter // AllKeys
	forgotten   forgottenOfAll
	receipts    receipts
	limits      limits
	holding     holding
	replication Replication

	keys      atomic.Int64
	bytes     atomic.Int64 // of tables, entries and windows
	waiting   waiting
	evictNext atomic.Uint32 // where makeRoom looks next
	refused   refusals
	departed  departures

	closed  atomic.Bool
	stop    context.CancelFunc
	janitor sync.WaitGroup
}

// refusals count hits, weighted, that were late or not counted.
type refusals struct{ late, tooLate, tooFarAhead atomic.Uint64 }

// departures count keys that left, and the hits that evicted keys had.
type departures struct{ evictedKeys, evictedHits, expiredKeys atomic.Uint64 }

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
	e := &Engine{
		cfg:         cfg,
		clock:       newClock(cfg),
		emptyWindow: empty,
		partitions:  make([]partition, cfg.Partitions),
		seed:        maphash.MakeSeed(),
		total:       Counter{window: empty},
		receipts:    receipts{budget: cfg.OnceMemory},
	}
	e.limits = newLimits(cfg, &e.clock.wall)
	e.replication.engine = e
	e.total.clock = e.clock
	for i := range e.partitions {
		t := newTable(1)
		e.partitions[i].table.Store(t)
		e.partitions[i].total = empty
		e.bytes.Add(t.size())
	}
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
	if second := e.clock.now(); second >= 0 {
		return time.Unix(second, 0)
	}
	return time.Time{}
}

// partitionOf is the number of the key's partition.
func (e *Engine) partitionOf(key string) int {
	return int(xxhash.Sum64String(key) & uint64(len(e.partitions)-1))
}

func (e *Engine) partition(key string) *partition { return &e.partitions[e.partitionOf(key)] }

// hash places a key in its partition's table. It is seeded: nobody can choose
// keys that collide.
func (e *Engine) hash(key string) uint64 { return maphash.String(e.seed, key) }
