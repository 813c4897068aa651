package admission

import "strings"

// searchStates is how many states of a share one search for idle ones looks at.
const searchStates = 64

// roomTries is how many other shares one request may search when memory is full.
const roomTries = 4

// insert makes a state, if there is room. The caller holds the share's lock.
func (ls *Table) insert(s *share, hash uint32, plan *Plan, key string) (*keyState, error) {
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
func (ls *Table) put(s *share, hash uint32, plan *Plan, key string) *keyState {
	st := s.table.insert(hash)
	st.plan, st.key = plan, strings.Clone(key)
	ls.states.Add(1)
	plan.Name.states.Add(1)
	ls.grow(plan, st.bytes())
	return st
}

func (st *keyState) bytes() int64 {
	return stateBytes + int64((len(st.key)+7)&^7) + int64(st.state.Size())
}

func (ls *Table) full() bool { return ls.bytes.Load() > ls.budget }

// makeRoom drops idle states while memory is full: some of this share, whose lock
// the caller holds, then of others that are not locked just now.
func (ls *Table) makeRoom(s *share, inline bool, now int64) {
	ls.dropIdle(s, now, searchStates)
	first := int(ls.next.Add(roomTries))
	for i := range min(roomTries, len(ls.shares)) {
		if !ls.fullFor(inline) {
			return
		}
		if other := &ls.shares[(first+i)%len(ls.shares)]; other != s && other.mu.TryLock() {
			ls.dropIdle(other, now, searchStates)
			other.mu.Unlock()
		}
	}
}

// dropIdle looks at some of the share's states, each time at the next, and drops
// the idle ones. The caller holds the share's lock.
func (ls *Table) dropIdle(s *share, now int64, most int) {
	t := &s.table
	for range min(most, t.places()) {
		if t.hand++; t.hand >= t.places() {
			t.hand = 0
		}
		st := t.at(uint32(t.hand))
		if st.plan == nil || !st.plan.Idle(&st.state, now) {
			continue
		}
		if _, fresh := s.fresh[st]; !fresh {
			ls.drop(s, uint32(t.hand))
		}
	}
}

// drop takes out the state at a place. The caller holds the share's lock.
func (ls *Table) drop(s *share, place uint32) {
	st := s.table.at(place)
	ls.grow(st.plan, -st.bytes())
	ls.states.Add(-1)
	st.plan.Name.states.Add(-1)
	s.table.remove(place, ls.hash(st.plan.Name, st.key))
}

// Expire drops all idle states of a share, and gives back the room they had.
func (ls *Table) Expire(partition int) {
	s := &ls.shares[partition]
	now := ls.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	ls.dropIdle(s, now, s.table.places())
	ls.forgetGrants(s, (now+ls.Clock.Ahead())/msOfNs)
	ls.forgetBans(s, (now+ls.Clock.Ahead())/msOfNs)
	ls.forgetPermits(s, now)
	if s.table.places() > 4*(s.table.used+chunkSize) && len(s.fresh) == 0 {
		s.table.shrink(ls.hash)
	}
}
