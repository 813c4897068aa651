package weir

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

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
	seed   maphash.Seed // of the tables

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
	mu    sync.Mutex // guards all below
	table limitTable
	fresh map[*limitState]freshAdmissions // since the last cut, of the limits that are journaled
	_     [64]byte
}

// limitName is a limit's name, one object for each.
type limitName struct {
	name      string
	salt      uint32        // of the hashes of its IDs
	overshoot atomic.Uint64 // see KeyedLimit.Overshoot
}

// limitState is what a key has used of a limit, and by which plan: the two cache
// lines of a decision are this and the state's cells.
type limitState struct {
	plan  *limitPlan // its name and the key are the state's ID
	key   string
	state limit.State
}

// limitPlan is a limit made ready.
type limitPlan struct {
	*limit.Plan
	name      *limitName
	journaled bool   // its admissions survive a restart, and other nodes learn of them
	strict    bool   // one node decides for all
	record    string // all this, as the journal has it; if there may be one
}

const (
	// maxLimitNames bounds the names that limits of an engine have had.
	maxLimitNames = 10_000

	// journaledPer is the shortest period of a limit that survives a restart: with
	// a shorter one nobody waits for long.
	journaledPer = time.Minute
)

func newLimits(cfg Config) limits {
	return limits{
		clock:  newLimitClock(cfg.Now),
		budget: cfg.LimitMemory,
		shares: make([]limitShare, cfg.Partitions),
		seed:   maphash.MakeSeed(),
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
		have = &limitName{name: name, salt: rand.Uint32()}
		ls.names[name] = have
	}
	return have, nil
}

// state finds or makes the state of a key under a plan. One of another limit is
// adopted. The caller holds the share's lock.
func (ls *limits) state(s *limitShare, plan *limitPlan, key string, now int64) (*limitState, error) {
	hash := ls.hash(plan.name, key)
	have := s.table.find(hash, plan.name, key)
	if have == nil {
		return ls.insert(s, hash, plan, key)
	}
	if have.plan != plan {
		ls.adopt(have, plan, now)
	}
	return have, nil
}

// hash places an ID in its share's table. It is seeded: nobody can choose keys
// that collide.
func (ls *limits) hash(name *limitName, key string) uint32 {
	return uint32(maphash.String(ls.seed, key)) ^ name.salt
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
