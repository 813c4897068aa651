package admission

import (
	"slices"
	"time"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/limit"
)

// Inline limits are those that requests bring along. Their numbers and names are
// the clients', who can ask for a year and for any keys: so what keys have used of them is a
// part of LimitMemory at most, whatever the journal brings back, and the limits of the
// program itself have all that they leave.

// inlinePart is the part of LimitMemory that inline limits have: one of so many.
const inlinePart = 4

// The bits of the last byte of a limitRecord. A record that has none of them ends
// before.
const (
	recordStrict = 1 << iota
	recordInline
	recordForget    // no limit: from here on, what was used of the inline limit of that name is forgotten
	recordForgetAll // the same of all inline limits
	recordChange    // no limit: a change to what was used of the limit of that name; a byte follows that says which
	recordOut       // no limit: what is out of one (out.go)
	recordBits      = 1<<iota - 1
)

func (ls *Table) inlineBudget() int64 { return ls.budget / inlinePart }

// fullFor tells whether there is no room for one more state of a plan.
func (ls *Table) fullFor(inline bool) bool {
	return ls.full() || inline && ls.inlineBytes.Load() > ls.inlineBudget()
}

// grow notes that states of a plan take so many bytes more.
func (ls *Table) grow(plan *Plan, bytes int64) {
	ls.bytes.Add(bytes)
	if plan.Inline {
		ls.inlineBytes.Add(bytes)
	}
}

// forgetInline drops the states that a plan of ForgetInline is about, also those that no cut
// has yet. The caller holds s.mu.
func (ls *Table) forgetInline(s *share, plan *Plan) (states int) {
	s.table.Load().Each(func(st *entry) {
		if st.Value.plan.Inline && (plan.forgets&recordForgetAll != 0 || st.Value.plan.Name == plan.Name) {
			delete(s.fresh, st)
			ls.drop(s, st)
			states++
		}
	})
	return states
}

// ForgetInlineOf forgets what keys have used of the inline limit of a record, and has cuts say
// so. It returns how many states there were.
func (ls *Table) ForgetInlineOf(name string, all bool) (states int, err error) {
	flags := byte(recordInline | recordForget)
	if all {
		flags = recordInline | recordForgetAll
	}
	record := limitRecord(name, limit.Limit{N: 1, Per: time.Millisecond, Burst: 1}, flags)
	plan, err := ls.Recorded(record)
	if err != nil {
		return 0, err
	}
	at := (ls.Clock.Now() + int64(time.Millisecond) - 1) / int64(time.Millisecond)
	for i := range ls.shares {
		s := &ls.shares[i]
		s.mu.Lock()
		states += ls.forgetInline(s, plan)
		told := func(a replication.Admission) bool { return a.Limit == record }
		if ls.gather && !slices.ContainsFunc(s.forgets, told) {
			s.forgets = append(s.forgets, replication.Admission{Limit: record, Key: "*", At: at, N: 1})
		}
		s.mu.Unlock()
	}
	return states, nil
}

// InlineNames are the names of the inline limits that a key of a partition has used.
//
// Cost: O(keys of the partition with limits in use).
func (ls *Table) InlineNames(partition int, key string) (names []string) {
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.Load().Each(func(st *entry) {
		if st.Value.plan.Inline && st.Key() == key {
			names = append(names, st.Value.plan.Name.Name)
		}
	})
	return names
}
