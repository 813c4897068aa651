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

	states      atomic.Int64
	bytes       atomic.Int64
	inlineBytes atomic.Int64  // of inline limits, in bytes too
	refused     atomic.Uint64 // requests that had no room for their state
	next        atomic.Uint32 // the share where makeRoom looks next

	mu       sync.Mutex // guards all below
	names    map[string]*limitName
	held     int                   // names that a KeyedLimit holds
	forgetAt int                   // names at which those are dropped that nobody needs
	records  map[string]*limitPlan // read from a journal
}

// limitShare is one partition's states, under a lock of its own: hits and
// admissions do not wait for each other.
type limitShare struct {
	mu      sync.Mutex // guards all below
	table   limitTable
	fresh   map[*limitState]freshAdmissions // since the last cut, of the limits that are journaled
	forgets []Admission                     // of ForgetInline, before those; one for each name at most
	away    bool                            // the partition is not held (limits_held.go)
	_       [64]byte
}

// limitName is a limit's name, one object for each. It is known while somebody
// holds it, or keys have states of it.
type limitName struct {
	name      string
	salt      uint32        // of the hashes of its IDs
	held      int           // KeyedLimits that were not released; guarded by limits.mu
	states    atomic.Int64  // of its keys
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
	inline    bool   // a request brought it along
	forgets   byte   // it is no limit: recordForget or recordForgetAll
	record    string // all this, as the journal has it; if there may be one
}

const (
	// maxLimitNames bounds the names that KeyedLimits hold. Others are known while
	// keys have states of them, within the budget of memory.
	maxLimitNames = 10_000

	// journaledPer is the shortest period of a limit that survives a restart: with
	// a shorter one nobody waits for long.
	journaledPer = time.Minute
)

func newLimits(cfg Config, wall *wallClock) limits {
	return limits{
		clock:  newLimitClock(cfg, wall),
		budget: cfg.LimitMemory,
		shares: make([]limitShare, cfg.Partitions),
		seed:   maphash.MakeSeed(),
		names:  map[string]*limitName{},

		records: map[string]*limitPlan{},
	}
}

// hold returns the one object of a name, for a KeyedLimit.
func (ls *limits) hold(name string) (*limitName, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	have := ls.name(name)
	if have.held == 0 {
		if ls.held >= maxLimitNames {
			return nil, &Error{CodeOverloaded, "limit", "10,000 names of limits are in use: use fewer, the key tells users apart"}
		}
		ls.held++
	}
	have.held++
	return have, nil
}

func (ls *limits) release(name *limitName) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if name.held--; name.held == 0 {
		ls.held--
	}
}

// name returns the one object of a name. The caller holds ls.mu.
func (ls *limits) name(name string) *limitName {
	have := ls.names[name]
	if have == nil {
		if len(ls.names) >= ls.forgetAt {
			ls.forgetNames()
			ls.forgetAt = max(maxLimitNames, 2*len(ls.names))
		}
		have = &limitName{name: name, salt: rand.Uint32()}
		ls.names[name] = have
	}
	return have
}

// forgetNames drops the names that nobody holds and no key has in use. The caller
// holds ls.mu.
func (ls *limits) forgetNames() {
	clear(ls.records) // they hold names; what is in use is soon back
	for text, name := range ls.names {
		if name.held == 0 && name.states.Load() == 0 {
			delete(ls.names, text)
		}
	}
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

// look is the state of a key as it would be under a plan, and changes nothing: one
// of another limit is copied and adopted. The caller holds the share's lock.
func (ls *limits) look(s *limitShare, plan *limitPlan, key string, now int64) *limitState {
	have := s.table.find(ls.hash(plan.name, key), plan.name, key)
	switch {
	case have == nil:
		return &limitState{plan: plan}
	case have.plan.Limit() == plan.Limit():
		return have
	}
	seen := &limitState{plan: plan}
	if _, err := have.plan.DecodeState(&seen.state, have.plan.AppendState(nil, &have.state)); err != nil {
		panic(err) // these are the bytes of this very state
	}
	plan.Adopt(&seen.state, have.plan.Plan, now)
	return seen
}

// hash places an ID in its share's table. It is seeded: nobody can choose keys
// that collide.
func (ls *limits) hash(name *limitName, key string) uint32 {
	return uint32(maphash.String(ls.seed, key)) ^ name.salt
}

func (ls *limits) adopt(have *limitState, plan *limitPlan, now int64) {
	ls.grow(have.plan, -have.bytes())
	if have.plan.Limit() != plan.Limit() {
		plan.Adopt(&have.state, have.plan.Plan, now)
	}
	have.plan = plan
	ls.grow(plan, have.bytes())
}
