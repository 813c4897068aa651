package admission

// searchBuckets is how many buckets of a share one search for idle states looks at: some 64 states.
const searchBuckets = 14

// spaceTries is how many other shares one request may search when memory is full.
const spaceTries = 4

// insert makes a state, if there is memory. The caller holds the share's lock.
func (ls *Table) insert(s *share, hash uint64, plan *Plan, key string) (*entry, error) {
	if ls.fullFor(plan.Inline) {
		ls.refused.Add(1)
		if !ls.full() {
			return nil, overloaded("limits of the requests' own have used a quarter of the memory of limits, which is all that they may: forget them (weir limits forget), use shorter periods, raise LimitMemory (weir serve --limit-memory), or write policies")
		}
		return nil, overloaded("the memory of limits is full of keys whose limits are in use: raise LimitMemory (weir serve --limit-memory), or use shorter periods")
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

// cellBytes is the memory of a state outside its entry.
func cellBytes(st *entry) int { return st.Value.state.SizeWithout(st.Space()) }

func (ls *Table) full() bool { return ls.bytes.Load() > ls.budget }

// makeSpace drops idle states while memory is full: some of this share, whose lock
// the caller holds, then of others that are not locked just now.
func (ls *Table) makeSpace(s *share, inline bool, now int64) {
	ls.dropIdle(s, now, searchBuckets)
	first := int(ls.next.Add(spaceTries))
	for i := range min(spaceTries, len(ls.shares)) {
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

// drop takes out a state. A goroutine that found it without the lock sees that it has no plan. The
// caller holds the share's lock.
func (ls *Table) drop(s *share, st *entry) {
	ls.grow(st.Value.plan, -bytesOf(st))
	ls.states.Add(-1)
	st.Value.plan.Name.states.Add(-1)
	s.table.Load().Remove(ls.hash(st.Value.plan.Name, st.Key()), st)
	st.Value = keyState{}
}

// Expire drops all idle states of a share, and the grants, bans, permits and leases that are over. It gives back their memory.
func (ls *Table) Expire(partition int) {
	now := ls.Clock.Now()
	s := ls.locked(partition)
	defer s.mu.Unlock()
	ls.dropIdle(s, now, s.table.Load().Buckets())
	nowMs := ls.unixMs(now)
	for id, g := range s.grants {
		if g.until <= nowMs {
			ls.endGrant(s, id)
		}
	}
	for id, until := range s.bans {
		if until <= nowMs {
			ls.unban(s, id)
		}
	}
	for id := range s.permits {
		ls.holders(s, id, func(k *PermitKey) { k.Held(now) }) // which forgets those whose time is over
	}
	ls.forgetOutstanding(s, now)
	for s.table.Load().Sparse() {
		ls.resize(s)
	}
}
