package admission

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/limit"
)

// What a node that decides a key has lent to others of its limit (package limit/grant) is out:
// those after it must know. It is kept, and journaled, as a state of its own for each limit, key and
// node that lends, by the name NAME@@NODE: one number, which each later one replaces, and how long
// it counts. In journals and snapshots it is an admission of that number and one, since 0 can't be.

// mostOut is the largest number that is out of one key: as many as any limit admits in held, and one
// less.
func mostOut(held time.Duration) uint64 { return uint64(held/time.Microsecond) - 1 }

// outName is the name by which it is kept what a node has lent of a limit.
func outName(name, holder string) string {
	return name + string(NodeMark) + string(NodeMark) + holder
}

// cutOutName takes an outName apart.
func cutOutName(kept string) (name, holder string, ok bool) {
	return strings.Cut(kept, string(NodeMark)+string(NodeMark))
}

// outPlan is the plan by which it is kept what is out for held, of the limit of a name.
func (ls *Table) outPlan(name, holder string, held time.Duration) (*Plan, error) {
	of := limit.Limit{Algorithm: limit.Window, N: mostOut(held) + 1, Per: held, Burst: mostOut(held) + 1}
	return ls.Recorded(limitRecord(outName(name, holder), of, recordStrict|recordOut))
}

// SetOut notes how much of a key's limit is out, lent by a node, for held from now on: instead of what
// SetOut said before. It is in the next cut.
func (ls *Table) SetOut(plan *Plan, holder string, partition int, key string, held time.Duration, out uint64) error {
	of, err := ls.outPlan(plan.Name.Name, holder, held)
	if err != nil {
		return fmt.Errorf("what is out of limit %s: %w", plan.Name.Name, err)
	}
	s := &ls.shares[partition]
	now := ls.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(out, mostOut(held)) + 1
	st := ls.setOut(s, of, key, now, n)
	if ls.gather {
		if s.fresh == nil {
			s.fresh = map[*entry]freshAdmissions{}
		}
		s.fresh[st] = freshAdmissions{n, now, now}
	}
	return nil
}

// setOut replaces what is out, unless what is there was said later. The caller holds s.mu.
func (ls *Table) setOut(s *share, plan *Plan, key string, at int64, n uint64) *entry {
	var said limit.State
	plan.Charge(&said, at, n)
	hash := ls.hash(plan.Name, key)
	st := s.find(hash, plan.Name, key)
	if st == nil {
		st = ls.put(s, hash, plan, key)
	} else if st.Value.plan.Peek(&st.Value.state, at, 0).Reset > plan.Peek(&said, at, 0).Reset && st.Value.plan.Limit() == plan.Limit() {
		return st
	}
	ls.grow(st.Value.plan, -bytesOf(st))
	st.Value.plan, st.Value.state = plan, said
	ls.grow(st.Value.plan, bytesOf(st))
	return st
}

// applyOut is apply of what another node has lent, or this one in an earlier life.
func (ls *Table) applyOut(partition int, plan *Plan, a replication.Admission, at int64) {
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	ls.setOut(s, plan, a.Key, at, a.N)
}

// Out is what is out of one key, lent by one node.
type Out struct {
	Limit, Key, Holder string
	Partition          int
	N                  uint64
	Until              int64 // by Now; it counts until then
}

// Outs calls f with all that is out of keys in some partitions. f runs under a lock of limits.
func (ls *Table) Outs(of func(partition int) bool, f func(Out)) {
	now := ls.Clock.Now()
	for i := range ls.shares {
		if !of(i) {
			continue
		}
		s := &ls.shares[i]
		s.mu.Lock()
		s.table.Load().Each(func(st *entry) {
			if !st.Value.plan.out {
				return
			}
			name, holder, _ := cutOutName(st.Value.plan.Name.Name)
			v := st.Value.plan.Peek(&st.Value.state, now, 0)
			if used := st.Value.plan.Limit().Burst - v.Remaining; used > 1 {
				f(Out{Limit: name, Key: st.Key(), Holder: holder, Partition: i, N: used - 1, Until: now + int64(v.Reset)})
			}
		})
		s.mu.Unlock()
	}
}

// Use counts n admissions of a key that were made at a time, not after now, without asking.
func (ls *Table) Use(plan *Plan, partition int, key string, at int64, n uint64) {
	now := ls.Clock.Now()
	s := &ls.shares[partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := ls.hash(plan.Name, key)
	st := s.find(hash, plan.Name, key)
	if st == nil {
		st = ls.put(s, hash, plan, key)
	} else if st.Value.plan != plan {
		ls.adopt(st, plan, now)
	}
	before := cellBytes(st)
	at = min(at, now)
	plan.Charge(&st.Value.state, at, n)
	ls.decided(s, st, at, n, true, before)
}

// peek is what the request's limit says of n admissions, with what a grant adds, beside those that are
// out.
func (a *Request) peek(now int64, n uint64) limit.Verdict {
	st := &a.state.Value.state
	if a.Beside == 0 {
		return a.grant.peek(a.Plan, st, now, n)
	}
	extra := uint64(0)
	if a.grant != nil {
		extra = a.grant.left
	}
	burst, free := a.Plan.Limit().Burst, a.free(now)
	own := n - min(n, extra)
	v := a.Plan.Peek(st, now, min(burst, own+min(a.Beside, burst)))
	v.Allowed, v.Never, v.Remaining = n <= free+extra, own > burst, free+extra
	switch {
	case v.Allowed:
		v.RetryAfter = 0
	case v.RetryAfter == 0 && !v.Never: // nothing is used: it is all out
		v.RetryAfter = a.Plan.Interval()
	}
	return v
}

// free is what of the limit is neither used nor out.
func (a *Request) free(now int64) uint64 {
	free := a.Plan.Peek(&a.state.Value.state, now, 0).Remaining
	return free - min(free, a.Beside)
}

// takeBeside takes what peek has allowed: of the limit what is free, and the rest of the grant. The
// caller holds the lock of the key's share.
func (ls *Table) takeBeside(a *Request, now int64) limit.Verdict {
	own := min(a.N, a.free(now))
	before := cellBytes(a.state)
	v := a.Plan.Take(&a.state.Value.state, now, own)
	ls.decided(&ls.shares[a.Partition], a.state, now, own, true, before)
	a.grant.left -= min(a.grant.left, a.N-own)
	a.grant.spent += a.N - own
	v.Remaining += a.grant.left
	v.Remaining -= min(v.Remaining, a.Beside)
	return v
}
