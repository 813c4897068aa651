package admission

import (
	"time"

	"github.com/weir-counter/weir/limit"
)

// KeyUse is what one key has used of its limit.
type KeyUse struct {
	Key       string
	Limit     limit.Limit // that the key was last asked by
	Used      uint64
	Remaining uint64
	Reset     time.Duration // until the whole burst is there again
}

// Uses calls f with the keys of a partition that have used something of the limit of a name. f
// runs under the partition's lock of limits.
func (ls *Table) Uses(partition int, name *Name, f func(u KeyUse)) {
	now := ls.Clock.Now()
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.Load().Each(func(st *entry) {
		if st.Value.plan.Name != name {
			return
		}
		v := st.Value.plan.Peek(&st.Value.state, now, 0)
		of := st.Value.plan.Limit()
		if used := of.Burst - v.Remaining; used > 0 {
			f(KeyUse{st.Key(), of, used, v.Remaining, v.Reset})
		}
	})
}

// KeysInUse is how many keys have used some of the limit of a name and not got all of it back.
func (ls *Table) KeysInUse(name *Name) (keys int) {
	now := ls.Clock.Now()
	for i := range ls.shares {
		s := &ls.shares[i]
		s.mu.Lock()
		s.table.Load().Each(func(st *entry) {
			if st.Value.plan.Name == name && !st.Value.plan.Idle(&st.Value.state, now) {
				keys++
			}
		})
		s.mu.Unlock()
	}
	return keys
}

// Stats are the figures of limits.
type Stats struct {
	States               int   // keys with limits in use, counted for each limit, and some that are no longer
	Bytes, Budget        int64 // of these
	Inline, InlineBudget int64 // of Bytes: of limits that requests bring along
	Refused              uint64
}

func (ls *Table) Stats() Stats {
	return Stats{
		States: int(ls.states.Load()), Bytes: ls.bytes.Load(), Budget: ls.budget,
		Inline: ls.inlineBytes.Load(), InlineBudget: ls.inlineBudget(), Refused: ls.refused.Load(),
	}
}
