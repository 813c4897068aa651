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

// Keys returns the keys that have used most of the limit, as a share of their
// burst, the fullest first: those at 1 are denied now. Keys that have used nothing
// are left out.
//
// Cost: O(keys with limits in use), a partition at a time.
func (l *KeyedLimit) Keys(most int) []KeyUse {
	ls := &l.engine.limits
	now := ls.clock.now()
	var uses []KeyUse
	for i := range ls.shares {
		uses = ls.shares[i].appendUses(uses, l.name, now)
		if len(uses) > 2*most+1024 {
			uses = fullest(uses, most)
		}
	}
	return fullest(uses, most)
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

func fullest(uses []KeyUse, most int) []KeyUse {
	slices.SortFunc(uses, func(a, b KeyUse) int {
		return cmp.Or(cmp.Compare(b.Share(), a.Share()), cmp.Compare(b.Used, a.Used), cmp.Compare(a.Key, b.Key))
	})
	return uses[:min(len(uses), max(most, 0))]
}
