package weir

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weir-counter/weir/limit"
)

// limits is what an Engine knows of the limits of its keys: for each name of a
// limit and each key the state of package limit, in one share per partition.
//
// A state whose limit is in use is never dropped: its key would get a fresh
// allowance. One that is idle, with its whole burst free again, decides like none
// at all, and goes when its room is needed, or when the janitor comes by.
type limits struct {
	clock  limitClock
	budget int64 // bytes
	shares []limitShare

	states  atomic.Int64
	bytes   atomic.Int64
	refused atomic.Uint64 // requests that had no room for their state
	next    atomic.Uint32 // the share where makeRoom looks next

	mu      sync.Mutex // guards all below
	names   map[string]*limitName
	records map[string]*limitPlan // read from a journal
}

// limitShare is one partition's states, under a lock of its own: hits and
// admissions do not wait for each other.
type limitShare struct {
	mu     sync.Mutex
	states map[limitID]*limitState
	peak   int                // states since the map was made: a map does not shrink
	fresh  map[limitID]uint64 // admissions since the last cut, of the limits that are journaled
	_      [64]byte
}

// limitName is a limit's name, one object for each: an ID takes 8 bytes for it.
type limitName struct{ name string }

// limitID names a state.
type limitID struct {
	name *limitName
	key  string
}

// limitState is what a key has used of a limit, and by which plan.
type limitState struct {
	plan  *limitPlan
	state limit.State
}

// limitPlan is a limit made ready.
type limitPlan struct {
	*limit.Plan
	journaled bool   // its admissions survive a restart
	record    string // name and limit, as the journal has them; if journaled
}

const (
	// maxLimitNames bounds the names that limits of an engine have had.
	maxLimitNames = 10_000

	// journaledPer is the shortest period of a limit that survives a restart: with
	// a shorter one nobody waits for long.
	journaledPer = time.Minute

	// stateBytes is the memory of a state beside its cells and the bytes of its
	// key: itself, and its place in a map that is two thirds full.
	stateBytes = int64(unsafe.Sizeof(limitState{})) + int64(unsafe.Sizeof(limitID{})+unsafe.Sizeof(uintptr(0))+1)*3/2
)

func newLimits(cfg Config) limits {
	return limits{
		clock:  newLimitClock(cfg.Now),
		budget: cfg.LimitMemory,
		shares: make([]limitShare, cfg.Partitions),
		names:  map[string]*limitName{},

		records: map[string]*limitPlan{},
	}
}

// name returns the one object of a name.
func (ls *limits) name(name string) (*limitName, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	have := ls.names[name]
	if have == nil {
		if len(ls.names) >= maxLimitNames {
			return nil, &Error{CodeOverloaded, "limit", "the engine knows 10,000 names of limits: use fewer, the key tells users apart"}
		}
		have = &limitName{name}
		ls.names[name] = have
	}
	return have, nil
}

// state finds or makes the state of an ID. One of another limit is adopted. The
// caller holds the share's lock.
func (ls *limits) state(s *limitShare, id limitID, plan *limitPlan, now int64) (*limitState, error) {
	have := s.states[id]
	if have == nil {
		return ls.insert(s, id, plan)
	}
	if have.plan != plan {
		ls.adopt(have, plan, now)
	}
	return have, nil
}

func (ls *limits) adopt(have *limitState, plan *limitPlan, now int64) {
	if have.plan.Limit() != plan.Limit() {
		before := have.state.Size()
		plan.Adopt(&have.state, have.plan.Plan, now)
		ls.bytes.Add(int64(have.state.Size() - before))
	}
	have.plan = plan
}

// limitClock is the time of admissions, in ns since the Unix epoch. It begins at
// the time of day and goes on by the monotonic clock: a time of day that jumps
// neither gives an allowance nor takes one.
type limitClock struct {
	start  time.Time
	base   int64
	source func() time.Time // nil: the system's
}

func newLimitClock(source func() time.Time) limitClock {
	start := time.Now()
	return limitClock{start: start, base: start.UnixNano(), source: source}
}

func (c *limitClock) now() int64 {
	if c.source != nil {
		return c.source().UnixNano()
	}
	return c.base + int64(time.Since(c.start))
}
