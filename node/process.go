package node

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/region"
	"github.com/weir-counter/weir/internal/units"
)

// processLimit keeps the memory of the process near what is in use. Left alone, the garbage collector lets a
// heap grow to twice of that. A limit that adds up all budgets would not help: those of limits and of receipts are for
// the worst case, and a process that uses neither would fill them with garbage. So there are three bounds, in bytes of
// what the Go runtime has:
//
//	usual      a quarter more than the budgets of counters, and a floor: below it the heap may double
//	in use     an eighth more than the last collection left: beyond usual, where limits, receipts, bodies or what is on its way take memory
//	most       what all budgets together come to, with half as much again
//
// and the limit is the larger of the first two, and at most the third. A small heap may more than double:
// collecting it all the time would be a tenth of what a decision over HTTP costs.
type processLimit struct {
	cfg     *Config
	regions atomic.Int64 // other regions that have a budget
	stop    context.CancelFunc
	running sync.WaitGroup
	percent int // that the heap may grow by; only the loop changes it. 0: GOGC says it
}

// limitEvery is how often the limit follows what is in use.
const limitEvery = 200 * time.Millisecond

const (
	// heapFloor is what the runtime may have beside a quarter more than counters. With less, a small budget costs far more
	// processor time: with 64 MiB a new key of a flood takes 2.3 µs in place of 1.2 where this is 16 MiB, for some 10 MiB less.
	heapFloor = 72 << 20

	// outside is what the process takes beside that: 40 MiB of the program's pages, SQLite's memory, and what is allocated
	// while a collection is under way.
	outside = 72 << 20

	// mostFloor is heapFloor where all that clients may bring is there.
	mostFloor = 128 << 20

	// leastSpare is what may be allocated, at the least, before the next collection.
	leastSpare = 8 << 20

	// leastGrowth is what may be allocated before the next collection where the limit has room for it. A heap of as much
	// doubles.
	leastGrowth = 64 << 20
)

func newProcessLimit(cfg *Config) *processLimit {
	ctx, stop := context.WithCancel(context.Background())
	l := &processLimit{cfg: cfg, stop: stop}
	if growth() == doubles { // else whoever has set GOGC knows better
		l.percent = doubles
	}
	l.setRegions(0)
	l.follow(readHeap())
	l.running.Go(func() {
		ticker := time.NewTicker(limitEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				l.follow(readHeap())
			}
		}
	})
	return l
}

func (l *processLimit) close(context.Context) error {
	l.stop()
	l.running.Wait()
	debug.SetMemoryLimit(math.MaxInt64) // what is in use is followed no longer
	l.grow(doubles)
	return nil
}

// setRegions says how many other regions have a budget of their own, and logs what the process comes to with them.
func (l *processLimit) setRegions(regions int) {
	l.regions.Store(int64(regions))
	told := []any{"counters", units.FormatSize(l.cfg.Engine.Memory), "limits", units.FormatSize(l.cfg.Engine.LimitMemory)}
	if regions > 0 {
		told = append(told, "other_regions", regions)
	}
	l.cfg.Logger.Info("memory", append(told, "usual", units.FormatSize(l.usual()+outside), "process", units.FormatSize(l.most()))...)
}

// counters are the budgets of counters: the own one, and one for each other region.
func (l *processLimit) counters() int64 {
	return l.cfg.Engine.Memory + l.regions.Load()*region.Config{Memory: l.cfg.Regions.Memory}.WithDefaults().Memory
}

// usual is what the runtime may have while neither limits nor receipts are in use.
func (l *processLimit) usual() int64 { return l.counters()/4*5 + heapFloor }

// most is what the process takes at most when all budgets are used.
func (l *processLimit) most() int64 {
	budget := l.counters() + l.cfg.Engine.LimitMemory + 3*l.cfg.Engine.OnceMemory
	if budget <= 0 || budget > math.MaxInt64/2 {
		return math.MaxInt64
	}
	most := budget + budget/2 + mostFloor + l.cfg.Service.MaxBufferedBytes + l.cfg.room().process()
	if l.cfg.RESP.Addr != "" {
		most += l.cfg.RESP.CounterMemory
	}
	return most
}

// follow sets the limit by what is in use.
func (l *processLimit) follow(h heap) {
	debug.SetMemoryLimit(h.limit(l.usual(), l.most()))
	l.grow(h.growth())
}

// grow sets by how many percent the heap may grow.
func (l *processLimit) grow(percent int) {
	if l.percent != 0 && percent != l.percent { // or the world would be stopped for nothing
		debug.SetGCPercent(percent)
		l.percent = percent
	}
}

// heap is what the Go runtime has, in bytes.
type heap struct {
	live  int64 // objects that the last collection found in use
	other int64 // what it has beside objects, and can't give back: stacks, tables, gaps between objects
}

// limit is what the runtime may have.
func (h heap) limit(usual, most int64) int64 {
	inUse := h.live + max(h.live/8, leastSpare) + h.other
	return min(max(usual, inUse), most)
}

// doubles is the growth, in percent, of a heap that doubles.
const doubles = 100

// growth is by how many percent the heap may grow before the next collection, in steps of doubles. The
// runtime collects no heap below 4 MiB for each of them.
func (h heap) growth() int {
	return max(1, int(leastGrowth/max(h.live, 4<<20))) * doubles
}

// growth is by how many percent the runtime lets the heap grow, as GOGC or debug.SetGCPercent has it.
func growth() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	of := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	return heap{live: of(0), other: of(1) - of(2) - of(3) - of(4)}
}

const (
	// The least budgets there may be of the engine that a node has.
	leastMemory      = 256 * 64 << 10
	leastLimitMemory = 64 << 10
)

// setBudgets gives the budgets that nobody gave their defaults, and makes those so small that
// snapshots have room in Journal.MaxBytes: who gives that alone wants to be kept to it. Budgets
// that were given are not changed: where they don't fit, the error names all that can be.
func (cfg *Config) setBudgets() {
	e := &cfg.Engine
	if e.OnceMemory == 0 {
		e.OnceMemory = min(defaultOnceMemory, cfg.room().receipts())
	}
	memoryGiven, limitsGiven := e.Memory != 0, e.LimitMemory != 0
	if !memoryGiven {
		e.Memory = defaultMemory
	}
	if !limitsGiven {
		e.LimitMemory = defaultLimitMemory
	}
	most := cfg.room().memory()
	if e.Memory+e.LimitMemory <= most {
		return
	}
	switch {
	case memoryGiven && limitsGiven:
	case memoryGiven:
		e.LimitMemory = max(most-e.Memory, leastLimitMemory)
	case limitsGiven:
		e.Memory = max(most-e.LimitMemory, leastMemory)
	default: // as the defaults are: four to one
		e.Memory = max(most/5*4, leastMemory)
		e.LimitMemory = max(most-e.Memory, leastLimitMemory)
	}
}

// leastShare is the part of one budget that the other is at least, without a warning.
const leastShare = 16

// tellBudgets logs budgets that setBudgets made smaller. given is the Config before it.
func (cfg *Config) tellBudgets(given *Config) {
	e := &cfg.Engine
	if given.Engine.Memory == 0 && e.Memory < defaultMemory || given.Engine.LimitMemory == 0 && e.LimitMemory < defaultLimitMemory {
		cfg.Logger.Info("the memory budgets are smaller than by default, so that snapshots have room in --max-disk",
			"memory", units.FormatSize(e.Memory), "limit_memory", units.FormatSize(e.LimitMemory), "max_disk", units.FormatSize(cfg.Journal.MaxBytes))
	}
	disk := units.FormatSize(cfg.Journal.MaxBytes)
	switch {
	case given.Engine.LimitMemory == 0 && e.LimitMemory < min(defaultLimitMemory, e.Memory/leastShare):
		cfg.Logger.Warn("--memory leaves hardly any of --max-disk for the memory of limits: decisions about more keys than fit are refused. Raise --max-disk, lower --memory, or set --limit-memory too",
			"memory", units.FormatSize(e.Memory), "limit_memory", units.FormatSize(e.LimitMemory), "max_disk", disk)
	case given.Engine.Memory == 0 && e.Memory < min(defaultMemory, e.LimitMemory/leastShare):
		cfg.Logger.Warn("--limit-memory leaves hardly any of --max-disk for the memory of counters: keys are evicted soon. Raise --max-disk, lower --limit-memory, or set --memory too",
			"memory", units.FormatSize(e.Memory), "limit_memory", units.FormatSize(e.LimitMemory), "max_disk", disk)
	}
}
