// Package admission is what keys have used of their limits: states of package limit, by a limit's
// name and a key, in partitions and within a memory budget that forgets no limit in use. It
// decides, notes for the journal what was admitted, and counts what the journal brings.
package admission

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// Table is what an engine knows of the limits of its keys: for each name of a
// limit and each key the state of package limit, in one share per partition.
//
// A state whose limit is in use is never dropped: its key would get a fresh
// allowance. One that is idle, with its whole burst free again, decides like none
// at all. It goes when its memory is needed, or at the next Expire.
type Table struct {
	Clock  keyspace.ClockLimits
	budget int64 // bytes
	gather bool  // admissions are kept for cuts
	shares []share
	tables []atomic.Pointer[keyspace.KeyTable[keyState]] // of the shares, in memory of their own: to find a key does not wait for the line of a lock
	seed   maphash.Seed                                  // of the tables
	taken  atomic.Pointer[string]                        // why takes of limits that are journaled are refused; nil: they are not
	_      [64]byte                                      // each decision reads what is before, and must not wait for the line of what changes

	states      atomic.Int64
	grants      atomic.Int64
	takenBack   atomic.Int64 // grants
	bans        atomic.Int64
	permits     atomic.Int64 // holders, with those whose time is over and that are not forgotten yet
	reserved    atomic.Int64 // parts of reservations that are not settled
	settled     atomic.Int64 // those that are
	bytes       atomic.Int64
	inlineBytes atomic.Int64  // of inline limits, in bytes too
	refused     atomic.Uint64 // requests that had no memory for their state
	next        atomic.Uint32 // the share where makeSpace looks next

	ids  sync.Mutex // guards byID
	byID map[string][]partRef

	mu       sync.Mutex // guards all below
	names    map[string]*Name
	held     int              // names that a KeyedLimit holds
	forgetAt int              // names at which those are dropped that nobody needs
	records  map[string]*Plan // read from a journal
}

// share is one partition's states, under a lock of its own: hits and
// admissions do not wait for each other.
type share struct {
	table *atomic.Pointer[keyspace.KeyTable[keyState]] // in Table.tables, read without the lock

	mu       sync.Mutex                 // guards all below, the states, and writing to the table
	grants   map[keyID]*grant           // in the lock's line: each decision reads it
	held     map[keyID]*heldKey         // too
	hand     int                        // the bucket where the next search for idle states begins
	fresh    map[*entry]freshAdmissions // since the last cut, of the limits that are journaled
	changes  []replication.Change       // since the last cut, before those
	closed   map[*entry]uint64          // admissions in changes
	bans     map[keyID]int64            // until when, in Unix ms
	permits  map[keyID]*PermitKey
	reserved map[partID]*reserved
	settled  []settledPart // the oldest first

	outstanding    map[outstandingID]*outstanding
	newOutstanding []outstandingID // since the last cut
	_              [64]byte
}

// Name is a limit's name, one object for each. It is known while a limit
// holds it, or keys have states under it.
type Name struct {
	Name   string
	salt   uint64       // of the hashes of its IDs
	held   int          // KeyedLimits that were not released; guarded by limits.mu
	states atomic.Int64 // of its keys
}

// keyState is what a key has used of a limit, and by which plan: the two cache
// lines of a decision are its entry and the state's cells.
type keyState struct {
	plan  *Plan // its name and the key are the state's ID; nil once it has left the table
	state limit.State
}

// Plan is a limit made ready.
type Plan struct {
	*limit.Plan
	Name      *Name
	journaled bool   // its admissions survive a restart, and other nodes learn of them
	Strict    bool   // one node decides for all
	Inline    bool   // a request brought it along
	Record    string // all this, as the journal has it; if there may be one
}

const (
	// MaxNames bounds the names that KeyedLimits hold. Others are known while
	// keys have states of them, within the budget of memory.
	MaxNames = 10_000

	// journaledPer is the shortest period of a limit that survives a restart: with
	// a shorter one nobody waits for long.
	journaledPer = time.Minute
)

// New returns an empty table. budget is in bytes; with gather, admissions are kept for
// cuts.
func New(partitions int, budget int64, gather bool, clock keyspace.ClockLimits) *Table {
	ls := &Table{
		Clock:  clock,
		budget: budget,
		gather: gather,
		shares: make([]share, partitions),
		tables: make([]atomic.Pointer[keyspace.KeyTable[keyState]], partitions),
		seed:   maphash.MakeSeed(),
		names:  map[string]*Name{},

		records: map[string]*Plan{},
	}
	for i := range ls.shares {
		ls.shares[i].table = &ls.tables[i]
		ls.tables[i].Store(keyspace.NewKeyTable[keyState]())
	}
	return ls
}

// eachShare calls f with each share, locked.
func (ls *Table) eachShare(f func(partition int, s *share)) {
	for i := range ls.shares {
		s := &ls.shares[i]
		s.mu.Lock()
		f(i, s)
		s.mu.Unlock()
	}
}

// partitionOf is the number of a key's partition.
func (ls *Table) partitionOf(key string) int { return keyspace.PartitionOf(key, len(ls.shares)) }

// lockedOf is the share of a key's partition, whose lock the caller gives back.
func (ls *Table) lockedOf(key string) *share { return ls.locked(ls.partitionOf(key)) }

// locked is the share of a partition, whose lock the caller gives back.
func (ls *Table) locked(partition int) *share {
	s := &ls.shares[partition]
	s.mu.Lock()
	return s
}

// NamesKept is how many names KeyedLimits hold, and how many are known.
func (ls *Table) NamesKept() (held, known int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.held, len(ls.names)
}

// newPlan makes other numbers of a limit ready. Their admissions are journaled if the limit says so, or the period is long enough.
func (l *KeyedLimit) newPlan(to limit.Limit) (*Plan, error) {
	plain, err := limit.New(to)
	if err != nil {
		return nil, &keyspace.Error{Code: api.CodeInvalidLimit, Field: "limit", Message: err.Error()}
	}
	made := &Plan{Plan: plain.ByTimeOfDay(l.table.Clock.Ahead), Name: l.name, Strict: l.strict, Inline: l.inline}
	if l.table.gather {
		made.journaled = l.journaled || plain.Limit().Per >= journaledPer
		made.Record = limitRecord(l.name.Name, plain.Limit(), made.flags())
	}
	return made, nil
}

// hold returns the one object of a name, for a KeyedLimit.
func (ls *Table) hold(name string) (*Name, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	have := ls.name(name)
	if have.held == 0 {
		if ls.held >= MaxNames {
			return nil, overloaded("10,000 names of limits are in use: use fewer, the key tells users apart")
		}
		ls.held++
	}
	have.held++
	return have, nil
}

// name returns the one object of a name. The caller holds ls.mu.
func (ls *Table) name(name string) *Name {
	have := ls.names[name]
	if have == nil {
		if len(ls.names) >= ls.forgetAt {
			ls.forgetNames()
			ls.forgetAt = max(MaxNames, 2*len(ls.names))
		}
		have = &Name{Name: name, salt: rand.Uint64()}
		ls.names[name] = have
	}
	return have
}

// forgetNames drops the names that nobody holds and no key has in use. The caller
// holds ls.mu.
func (ls *Table) forgetNames() {
	clear(ls.records) // they hold names; what is in use is soon back
	for text, name := range ls.names {
		if name.held == 0 && name.states.Load() == 0 {
			delete(ls.names, text)
		}
	}
}

// state finds or makes the state of a key under a plan. One of another limit is
// adopted. The caller holds the share's lock.
func (ls *Table) state(s *share, plan *Plan, key string, now int64) (*entry, error) {
	hash := ls.hash(plan.Name, key)
	return ls.stateFrom(s.find(hash, plan.Name, key), s, hash, plan, key, now)
}

// stateFrom is state where it is known what the table has, which may be nothing.
func (ls *Table) stateFrom(have *entry, s *share, hash uint64, plan *Plan, key string, now int64) (*entry, error) {
	if have == nil {
		return ls.insert(s, hash, plan, key)
	}
	if have.Value.plan != plan {
		ls.adopt(have, plan, now)
	}
	return have, nil
}

// look is the state of a key as it would be under a plan, and changes nothing: one
// of another limit is copied and adopted. The caller holds the share's lock.
func (ls *Table) look(s *share, plan *Plan, key string, now int64) *entry {
	if have := s.find(ls.hash(plan.Name, key), plan.Name, key); have != nil {
		return under(have, plan, now)
	}
	return &entry{Value: keyState{plan: plan}}
}

// under is a state as it would be under a plan; it changes nothing.
func under(have *entry, plan *Plan, now int64) *entry {
	if have.Value.plan == plan || have.Value.plan.Limit() == plan.Limit() {
		return have
	}
	seen := &entry{Value: keyState{plan: plan}}
	if _, err := have.Value.plan.DecodeState(&seen.Value.state, have.Value.plan.AppendState(nil, &have.Value.state)); err != nil {
		panic(err) // these are the bytes of this very state
	}
	plan.Adopt(&seen.Value.state, have.Value.plan.Plan, now)
	return seen
}

// hash places an ID in its share's table. It is seeded: nobody can choose keys
// that collide.
func (ls *Table) hash(name *Name, key string) uint64 {
	return maphash.String(ls.seed, key) ^ name.salt
}

func (ls *Table) adopt(have *entry, plan *Plan, now int64) {
	ls.grow(have.Value.plan, -bytesOf(have))
	if have.Value.plan.Limit() != plan.Limit() {
		plan.Adopt(&have.Value.state, have.Value.plan.Plan, now)
		plan.Begin(&have.Value.state, have.Space())
	}
	have.Value.plan = plan
	ls.grow(plan, bytesOf(have))
}

// overloaded is the error while memory is full, or the journal takes no more.
func overloaded(message string) error {
	return &keyspace.Error{Code: api.CodeOverloaded, Field: "limit", Message: message}
}

// entry is what a key has used of one limit, with the key. A key has one for each name of a limit, in
// the table under a hash of both.
type entry = keyspace.Entry[keyState]

// stateBytes is the memory of a state's entry, and its part of a bucket that has 3 to 6 of them.
func stateBytes(st *entry) int64 {
	return keyspace.EntryBytesWithSpace[keyState](len(st.Key()), len(st.Space())) + 14
}

// find returns the state of an ID, or nil. The caller holds s.mu.
func (s *share) find(hash uint64, name *Name, key string) *entry {
	t := s.table.Load()
	e := t.Find(hash, key)
	for e != nil && e.Value.plan.Name != name {
		e = t.Next(hash, key, e)
	}
	return e
}

// insertState makes a state whose ID is not in the table. The caller holds s.mu.
func (ls *Table) insertState(s *share, hash uint64, plan *Plan, key string) *entry {
	t := s.table.Load()
	if t.Full() {
		t = ls.resize(s)
	}
	e := keyspace.NewWithSpace[keyState](key, plan.Near())
	e.Value.plan = plan
	plan.Begin(&e.Value.state, e.Space())
	t.Insert(hash, e)
	return e
}

// resize gives a table that is full, or sparse, another size. The caller holds s.mu.
func (ls *Table) resize(s *share) *keyspace.KeyTable[keyState] {
	t := s.table.Load().Resized(func(e *entry) uint64 { return ls.hash(e.Value.plan.Name, e.Key()) })
	s.table.Store(t)
	return t
}

// MaxNameBytes is the longest name of a limit, or a node, in bytes.
const MaxNameBytes = 64

const nameOthers = "._/-"

// nodeMark stands between the name of a limit that is one node's alone and the name
// of the node. No name that is given to Limit has it.
const nodeMark = "@"

// isName is whether s is 1 to MaxNameBytes letters, digits or any of others.
func isName(s, others string) bool {
	for i := range len(s) {
		if c := s[i]; !('a' <= c|0x20 && c|0x20 <= 'z') && !('0' <= c && c <= '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= MaxNameBytes
}

// isNodeName is whether a name may be a node's.
func isNodeName(name string) bool { return isName(name, "._-") }

// checkName returns an error unless a name may be a limit's.
func checkName(name string) error {
	if isName(name, nameOthers) {
		return nil
	}
	return &keyspace.Error{Code: api.CodeInvalidLimit, Field: "limit", Message: fmt.Sprintf("the name %.80q of a limit: must be 1 to %d letters, digits or any of %s", name, MaxNameBytes, nameOthers)}
}

// checkKept is checkName for the names that states are kept by.
func checkKept(kept string) error {
	name, node, marked := strings.Cut(kept, nodeMark)
	if marked && !isNodeName(node) {
		return fmt.Errorf("%.80q is no node", node)
	}
	return checkName(name)
}

// Known appends what this engine knows of a key's admissions that still count, the oldest first. Each has the latest
// time of day at which it may have been, in ns since 1970. It may have been earlier by up to doubt. Known takes
// nothing. raw is what Raw of the engine's Wall has just said. Cost: a decision, and O(34).
func (l *KeyedLimit) Known(key string, raw time.Time, list []limit.Admitted) (_ []limit.Admitted, doubt time.Duration) {
	if keyspace.CheckKey(key) != nil {
		return list, 0
	}
	ls, plan := l.table, l.plan.Load()
	now, ahead := ls.Clock.At(raw)
	share := ls.lockedOf(key)
	defer share.mu.Unlock()
	st := ls.look(share, plan, key, now)
	began, before := len(list), cellBytes(st)
	list, doubt = plan.AppendKnown(list, &st.Value.state, now)
	if st.Key() != "" { // it is in the table, and may have let go of what is over
		if grown := cellBytes(st) - before; grown != 0 {
			ls.grow(st.Value.plan, int64(grown))
		}
	}
	for i := range list[began:] {
		list[began+i].At += ahead
	}
	return list, doubt
}
