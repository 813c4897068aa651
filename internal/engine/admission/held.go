package admission

import (
	"strings"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// What keys have used of shared limits is kept where their partition is held. Strict
// limits are decided by a node that may hold none of their keys, and those of one node
// are that node's: both are kept everywhere. A shared limit that is decided anyway
// where its key's partition is not held knows what was admitted there, and no more.

// ofHolders tells whether only the holders of a key's partition keep its state.
func (p *Plan) ofHolders() bool {
	return p.journaled && !p.Strict && !strings.ContainsRune(p.Name.Name, NodeMark)
}

// ReleaseShare lets the states of shared limits go, but for those whose admissions no cut has
// yet.
func (ls *Table) ReleaseShare(partition int) {
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = true
	ls.letGo(s)
}

// letGo drops the states of shared limits that no cut waits for. The caller holds s.mu.
func (ls *Table) letGo(s *share) {
	s.table.Load().Each(func(st *entry) {
		if _, fresh := s.fresh[st]; !fresh && st.Value.plan.ofHolders() {
			ls.drop(s, st)
		}
	})
}

// HoldShare takes the states of shared limits back, and admissions after them. What was
// admitted here since the last cut counts too; what was before comes from the journal.
func (ls *Table) HoldShare(partition int, list []replication.LimitState) error {
	states, _, err := ls.decodeStates(list) // grants are kept everywhere
	if err != nil {
		return err
	}
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	ls.letGo(s)
	for st := range s.fresh {
		if st.Value.plan.ofHolders() {
			ls.grow(st.Value.plan, -int64(cellBytes(st)))
			st.Value.state = limit.State{}
			ls.grow(st.Value.plan, int64(cellBytes(st)))
		}
	}
	for i := range states {
		if states[i].plan.ofHolders() {
			ls.restoreOne(s, &states[i])
		}
	}
	for _, a := range s.changes {
		plan, err := ls.Recorded(a.Limit)
		if err != nil {
			return err
		}
		ls.makeChange(s, partition, plan, a, heldStates)
	}
	for st, of := range s.fresh {
		if st.Value.plan.ofHolders() {
			before := cellBytes(st)
			st.Value.plan.Charge(&st.Value.state, of.at, of.n)
			ls.grow(st.Value.plan, int64(cellBytes(st)-before))
		}
	}
	s.away = false
	return nil
}

// ApplyShared counts those admissions that are of limits whose state only holders keep.
func (ls *Table) ApplyShared(partition int, list []replication.Admission) error {
	for _, a := range list {
		plan, err := ls.Recorded(a.Limit)
		if err == nil && plan.ofHolders() {
			err = ls.apply(partition, a, false, heldStates)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// searchBuckets is how many buckets of a share one search for idle states looks at: some 64 states.
const searchBuckets = 14

// roomTries is how many other shares one request may search when memory is full.
const roomTries = 4

// insert makes a state, if there is room. The caller holds the share's lock.
func (ls *Table) insert(s *share, hash uint64, plan *Plan, key string) (*entry, error) {
	if ls.fullFor(plan.Inline) {
		ls.refused.Add(1)
		if !ls.full() {
			return nil, &OverloadedError{"limits of the requests' own have used a quarter of the memory of limits, which is all that they may: forget them (weir limits forget), use shorter periods, raise LimitMemory (weir serve --limit-memory), or write policies"}
		}
		return nil, &OverloadedError{"the memory of limits is full of keys whose limits are in use: raise LimitMemory (weir serve --limit-memory), or use shorter periods"}
	}
	return ls.put(s, hash, plan, key), nil
}

// put makes a state that is not there. The caller holds the share's lock.
func (ls *Table) put(s *share, hash uint64, plan *Plan, key string) *entry {
	st := ls.insertState(s, hash, plan, key)
	ls.states.Add(1)
	plan.Name.states.Add(1)
	ls.grow(plan, bytesOf(st))
	return st
}

func bytesOf(st *entry) int64 {
	return stateBytes(st) + int64(cellBytes(st))
}

// cellBytes is the memory of a state beside its entry.
func cellBytes(st *entry) int { return st.Value.state.SizeBeside(st.Room()) }

func (ls *Table) full() bool { return ls.bytes.Load() > ls.budget }

// makeRoom drops idle states while memory is full: some of this share, whose lock
// the caller holds, then of others that are not locked just now.
func (ls *Table) makeRoom(s *share, inline bool, now int64) {
	ls.dropIdle(s, now, searchBuckets)
	first := int(ls.next.Add(roomTries))
	for i := range min(roomTries, len(ls.shares)) {
		if !ls.fullFor(inline) {
			return
		}
		if other := &ls.shares[(first+i)%len(ls.shares)]; other != s && other.mu.TryLock() {
			ls.dropIdle(other, now, searchBuckets)
			other.mu.Unlock()
		}
	}
}

// dropIdle looks at some of the share's buckets, each time at the next, and drops
// the states that are idle. The caller holds the share's lock.
func (ls *Table) dropIdle(s *share, now int64, most int) {
	t := s.table.Load()
	for range min(most, t.Buckets()) {
		s.hand = t.After(s.hand)
		t.EachIn(s.hand, func(st *entry) {
			if !st.Value.plan.Idle(&st.Value.state, now) {
				return
			}
			if _, fresh := s.fresh[st]; !fresh {
				ls.drop(s, st)
			}
		})
	}
}

// drop takes out a state. Who found it without the lock sees that it has no plan. The
// caller holds the share's lock.
func (ls *Table) drop(s *share, st *entry) {
	ls.grow(st.Value.plan, -bytesOf(st))
	ls.states.Add(-1)
	st.Value.plan.Name.states.Add(-1)
	s.table.Load().Remove(ls.hash(st.Value.plan.Name, st.Key()), st)
	st.Value = keyState{}
}

// Expire drops all idle states of a share, and gives back the room they had.
func (ls *Table) Expire(partition int) {
	s := &ls.shares[partition]
	now := ls.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	ls.dropIdle(s, now, s.table.Load().Buckets())
	ls.forgetGrants(s, (now+ls.Clock.Ahead())/msOfNs)
	ls.forgetBans(s, (now+ls.Clock.Ahead())/msOfNs)
	ls.forgetPermits(s, now)
	for s.table.Load().Sparse() {
		ls.resize(s)
	}
}
