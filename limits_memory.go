package weir

import (
	"maps"
	"strings"
)

// searchStates is how many states of a share one search for idle ones looks at.
const searchStates = 64

// roomTries is how many other shares one request may search when memory is full.
const roomTries = 4

// insert makes a state, if there is room. The caller holds the share's lock.
func (ls *limits) insert(s *limitShare, id limitID, plan *limitPlan) (*limitState, error) {
	if ls.full() {
		ls.refused.Add(1)
		return nil, &Error{CodeOverloaded, "limit", "the memory of limits is full of keys whose limits are in use: raise LimitMemory, or use shorter periods"}
	}
	return ls.put(s, id, plan), nil
}

// put makes a state that is not there. The caller holds the share's lock.
func (ls *limits) put(s *limitShare, id limitID, plan *limitPlan) *limitState {
	if s.states == nil {
		s.states = map[limitID]*limitState{}
	}
	id.key = strings.Clone(id.key)
	made := &limitState{plan: plan}
	s.states[id] = made
	s.peak = max(s.peak, len(s.states))
	ls.states.Add(1)
	ls.bytes.Add(made.bytes(id))
	return made
}

func (st *limitState) bytes(id limitID) int64 {
	return stateBytes + int64((len(id.key)+7)&^7) + int64(st.state.Size())
}

func (ls *limits) full() bool { return ls.bytes.Load() > ls.budget }

// makeRoom drops idle states while memory is full: some of this share, whose lock
// the caller holds, then of others that are not locked just now.
func (ls *limits) makeRoom(s *limitShare, now int64) {
	ls.dropIdle(s, now, searchStates)
	first := int(ls.next.Add(roomTries))
	for i := range min(roomTries, len(ls.shares)) {
		if !ls.full() {
			return
		}
		if other := &ls.shares[(first+i)%len(ls.shares)]; other != s && other.mu.TryLock() {
			ls.dropIdle(other, now, searchStates)
			other.mu.Unlock()
		}
	}
}

// dropIdle looks at some of the share's states, each time others, and drops the
// idle ones. The caller holds the share's lock.
func (ls *limits) dropIdle(s *limitShare, now int64, most int) {
	dropped := 0
	for id, st := range s.states { // begins anywhere
		if most--; most < 0 {
			break
		}
		if _, fresh := s.fresh[id]; !fresh && st.plan.Idle(&st.state, now) {
			delete(s.states, id)
			ls.bytes.Add(-st.bytes(id))
			dropped++
		}
	}
	ls.states.Add(int64(-dropped))
}

// expire drops all idle states of a share, and the room that its map has left.
func (ls *limits) expire(s *limitShare) {
	now := ls.clock.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	ls.dropIdle(s, now, len(s.states))
	if s.peak > 64 && len(s.states) < s.peak/4 {
		kept := make(map[limitID]*limitState, len(s.states)) // a clone would be as large
		maps.Copy(kept, s.states)
		s.states, s.peak = kept, len(kept)
	}
}
