package weir

import (
	"slices"
	"time"
)

// Inline limits are those that requests bring along. Their numbers and names are
// the clients', who can ask for a year and for any keys: so what keys have used of them is a
// part of LimitMemory at most, whatever the journal brings back, and the limits of the
// program itself have all that they leave.

// inlinePart is the part of LimitMemory that inline limits have: one of so many.
const inlinePart = 4

// Inline makes l a limit that requests bring along, as it is from now on: see
// Engine.ForgetInline. It is for a limit that nothing was asked of yet.
func (l *KeyedLimit) Inline() (*KeyedLimit, error) {
	l.inline = true
	return l, l.SetLimit(l.Limit())
}

// The bits of the last byte of a limitRecord. A record that has none of them ends
// before.
const (
	recordStrict = 1 << iota
	recordInline
	recordForget    // no limit: from here on, what was used of the inline limit of that name is forgotten
	recordForgetAll // the same of all inline limits
	recordBits      = 1<<iota - 1
)

func (ls *limits) inlineBudget() int64 { return ls.budget / inlinePart }

// fullFor tells whether there is no room for one more state of a plan.
func (ls *limits) fullFor(inline bool) bool {
	return ls.full() || inline && ls.inlineBytes.Load() > ls.inlineBudget()
}

// grow notes that states of a plan take so many bytes more.
func (ls *limits) grow(plan *limitPlan, bytes int64) {
	ls.bytes.Add(bytes)
	if plan.inline {
		ls.inlineBytes.Add(bytes)
	}
}

// ForgetInline forgets what keys have used of the inline limit of a name, or with "" of
// all: each has its whole burst again. It returns how many states there were here. With a
// journal, other nodes forget too when they follow the next flush, and a restart brings
// nothing back; what another node admits meanwhile may stay.
//
// Cost: O(keys with limits in use), a partition at a time.
func (e *Engine) ForgetInline(name string) (states int, err error) {
	flags, kept := byte(recordInline|recordForget), name
	if name == "" {
		flags, kept = recordInline|recordForgetAll, "inline"
	}
	if err := checkLimitName(kept); err != nil {
		return 0, err
	}
	ls := &e.limits
	record := limitRecord(kept, Limit{N: 1, Per: time.Millisecond, Burst: 1}, flags)
	plan, err := ls.recorded(record)
	if err != nil {
		return 0, err
	}
	at := (ls.clock.now() + int64(time.Millisecond) - 1) / int64(time.Millisecond)
	for i := range ls.shares {
		s := &ls.shares[i]
		s.mu.Lock()
		states += ls.forgetInline(s, plan)
		told := func(a Admission) bool { return a.Limit == record }
		if e.cfg.Gather && !slices.ContainsFunc(s.forgets, told) {
			s.forgets = append(s.forgets, Admission{record, "*", at, 1})
		}
		s.mu.Unlock()
	}
	return states, nil
}

// forgetInline drops the states that a plan of ForgetInline is about, also those that no cut
// has yet. The caller holds s.mu.
func (ls *limits) forgetInline(s *limitShare, plan *limitPlan) (states int) {
	t := &s.table
	for place := range t.places() {
		st := t.at(uint32(place))
		if st.plan != nil && st.plan.inline && (plan.forgets&recordForgetAll != 0 || st.plan.name == plan.name) {
			delete(s.fresh, st)
			ls.drop(s, uint32(place))
			states++
		}
	}
	return states
}
