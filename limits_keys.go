package weir

import (
	"cmp"
	"slices"
	"time"
)

// KeyUse is what one key has used of its limit.
type KeyUse struct {
	Key       string
	Limit     Limit // that the key was last asked by
	Used      uint64
	Remaining uint64
	Reset     time.Duration // until the whole burst is there again
}

// Share is the part of the burst that is in use, 0 to 1.
func (u KeyUse) Share() float64 { return float64(u.Used) / float64(u.Limit.Burst) }

// Compare orders as Keys does: negative if u comes before o.
func (u KeyUse) Compare(o KeyUse) int {
	return cmp.Or(cmp.Compare(o.Share(), u.Share()), cmp.Compare(o.Used, u.Used), cmp.Compare(u.Key, o.Key))
}

// Keys returns the keys that have used most of the limit, as a share of their
// burst, the fullest first: those at 1 are denied now. Keys that have used nothing
// are left out. It is what this engine knows, of all partitions.
//
// Cost: O(keys with limits in use), a partition at a time.
func (l *KeyedLimit) Keys(most int) []KeyUse {
	ls := &l.engine.limits
	now := ls.clock.now()
	list := fullestUses{most: most}
	for i := range ls.shares {
		list.add(&ls.shares[i], l.name, now)
	}
	return list.sorted()
}

// KeysInUse returns how many keys have used some of the limit and not got all of it back, as
// far as this engine knows.
//
// Cost: O(keys with limits in use), a partition at a time.
func (l *KeyedLimit) KeysInUse() (keys int) {
	ls := &l.engine.limits
	now := ls.clock.now()
	for i := range ls.shares {
		keys += ls.shares[i].inUse(l.name, now)
	}
	return keys
}

// KeysIn is Keys of some partitions, all of which must be held: of others this engine
// does not know what the keys used of a shared limit.
func (l *KeyedLimit) KeysIn(in PartitionSet, most int) ([]KeyUse, error) {
	if err := checkList("n", most); err != nil {
		return nil, err
	}
	e := l.engine
	now := e.limits.clock.now()
	list := fullestUses{most: most}
	for i := range e.partitions {
		if !in.Has(i) {
			continue
		}
		list.add(&e.limits.shares[i], l.name, now)
		if err := e.partitions[i].mustHold(); err != nil { // or it was released meanwhile
			return nil, err
		}
	}
	return list.sorted(), nil
}

// fullestUses gathers the most of the uses that come first.
type fullestUses struct {
	most int
	list []KeyUse
}

func (f *fullestUses) add(s *limitShare, name *limitName, now int64) {
	f.list = s.appendUses(f.list, name, now)
	if len(f.list) > 2*f.most+1024 {
		f.sorted()
	}
}

func (f *fullestUses) sorted() []KeyUse {
	slices.SortFunc(f.list, KeyUse.Compare)
	f.list = f.list[:min(len(f.list), max(f.most, 0))]
	return f.list
}

func (s *limitShare) inUse(name *limitName, now int64) (keys int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.each(func(st *limitState) {
		if st.plan.name == name && !st.plan.Idle(&st.state, now) {
			keys++
		}
	})
	return keys
}

func (s *limitShare) appendUses(uses []KeyUse, name *limitName, now int64) []KeyUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.each(func(st *limitState) {
		if st.plan.name != name {
			return
		}
		v := st.plan.Peek(&st.state, now, 0)
		limit := st.plan.Limit()
		if used := limit.Burst - v.Remaining; used > 0 {
			uses = append(uses, KeyUse{st.key, limit, used, v.Remaining, v.Reset})
		}
	})
	return uses
}
