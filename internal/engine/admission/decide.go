package admission

import (
	"math"
	"slices"
	"unsafe"

	"github.com/weir-counter/weir/internal/prefetch"
	"github.com/weir-counter/weir/limit"
)

// Request is one limit that a request must pass.
type Request struct {
	Plan        *Plan
	Key         string
	N           uint64 // admissions that it takes; 0 asks only
	Shadow      bool   // its verdict denies nothing
	Partition   int    // of the key
	Outstanding uint64 // admissions that are out (outstanding.go): as good as taken

	state  *entry
	grant  *grant
	passes bool
}

// FewRequests is how many limits most requests have.
const FewRequests = 4

// DecideAll admits a request under several limits, all or none: see engine.Engine.TakeAll.
// verdicts has the length of asked; now is when it was decided, by Clock.
func (ls *Table) DecideAll(asked []Request, verdicts []limit.Verdict, take bool) (allowed bool, now int64, err error) {
	now = ls.Clock.Now()
	var order [FewRequests]int
	locked := ls.lock(order[:0], asked, now)
	defer ls.unlock(locked)
	allowed = true
	for i := range asked {
		a := &asked[i]
		if share := &ls.shares[a.Partition]; !take || a.N == 0 {
			a.state = ls.look(share, a.Plan, a.Key, now)
		} else if a.state, err = ls.state(share, a.Plan, a.Key, now); err != nil {
			return false, now, err
		}
		a.grant = ls.granted(&ls.shares[a.Partition], a.Plan, a.Key, now)
		a.Outstanding += ls.shares[a.Partition].heldOf(a.Plan, a.Key, now)
		verdicts[i] = a.peek(now, a.withEarlier(asked[:i]))
		a.passes = verdicts[i].Allowed
		allowed = allowed && (a.passes || a.Shadow)
	}
	if !take || !allowed {
		return allowed, now, nil
	}
	for i := range asked {
		if a := &asked[i]; a.passes && a.N > 0 {
			if err := ls.refusesTake(a.Plan); err != nil {
				return false, now, err
			}
		}
	}
	for i := range asked {
		if a := &asked[i]; a.passes {
			ls.takePeeked(a, &verdicts[i], now)
		}
	}
	return true, now, nil
}

// takePeeked takes what Peek has allowed. Where two checks are of one key and name,
// and of other limits, the state goes from one to the other; what rounding would
// then refuse is charged anyway.
func (ls *Table) takePeeked(a *Request, verdict *limit.Verdict, now int64) {
	if a.N == 0 {
		return
	}
	if a.state.Value.plan != a.Plan {
		ls.adopt(a.state, a.Plan, now)
	}
	if a.grant != nil {
		*verdict = ls.takeGranted(a, now)
		return
	}
	before := cellBytes(a.state)
	if *verdict = a.Plan.Take(&a.state.Value.state, now, a.N); !verdict.Allowed {
		a.Plan.Charge(&a.state.Value.state, now, a.N)
		*verdict = a.Plan.Peek(&a.state.Value.state, now, 0)
	}
	verdict.Remaining -= min(verdict.Remaining, a.Outstanding)
	ls.decided(&ls.shares[a.Partition], a.state, now, a.N, true, before)
}

// withEarlier is what the check needs together with those before it that take of
// the same state.
func (a *Request) withEarlier(before []Request) uint64 {
	n := a.N
	for _, b := range before {
		if b.state == a.state && b.passes {
			n += min(b.N, math.MaxUint64-n)
		}
	}
	return n
}

// lock takes the locks of all shares that are asked, in the order of their
// numbers so that two requests never wait for each other, and frees memory. It
// returns these numbers, in the memory of locked.
func (ls *Table) lock(locked []int, asked []Request, now int64) []int {
	for _, a := range asked {
		locked = append(locked, a.Partition)
	}
	slices.Sort(locked)
	locked = slices.Compact(locked)
	for _, i := range locked {
		ls.shares[i].mu.Lock()
	}
	inline := slices.ContainsFunc(asked, func(a Request) bool { return a.Plan.Inline })
	for _, i := range locked {
		if ls.fullFor(inline) {
			ls.makeSpace(&ls.shares[i], inline, now)
		}
	}
	return locked
}

func (ls *Table) unlock(locked []int) {
	for _, i := range locked {
		ls.shares[i].mu.Unlock()
	}
}

// Allow admits n requests of a key under a plan, all or none. It is also false for a key that
// there is no memory for.
func (ls *Table) Allow(plan *Plan, partition int, key string, n uint64) bool {
	st, share, now, err := ls.enter(plan, partition, key)
	if err != nil {
		return false
	}
	defer share.mu.Unlock()
	if n > 0 && ls.refusesTake(st.Value.plan) != nil {
		return false
	}
	if held, g := share.heldOf(plan, key, now), ls.granted(share, plan, key, now); held > 0 || g != nil {
		v, err := ls.takeWith(Request{Plan: plan, Key: key, N: n, Partition: partition, Outstanding: held, state: st, grant: g}, now)
		return v.Allowed && err == nil
	}
	before := cellBytes(st)
	allowed := st.Value.plan.Allow(&st.Value.state, now, n)
	ls.decided(share, st, now, n, allowed, before)
	return allowed
}

// Take is allow with what is left, and why there was no decision.
func (ls *Table) Take(plan *Plan, partition int, key string, n uint64) (limit.Verdict, error) {
	st, share, now, err := ls.enter(plan, partition, key)
	if err != nil {
		return limit.Verdict{}, err
	}
	defer share.mu.Unlock()
	held, g := share.heldOf(plan, key, now), ls.granted(share, plan, key, now)
	if held > 0 || g != nil || n > 0 && ls.refusesTake(plan) != nil {
		return ls.takeWith(Request{Plan: plan, Key: key, N: n, Partition: partition, Outstanding: held, state: st, grant: g}, now)
	}
	before := cellBytes(st)
	v := st.Value.plan.Take(&st.Value.state, now, n)
	ls.decided(share, st, now, n, v.Allowed, before)
	return v, nil
}

// Peek says what take would decide, and takes nothing.
func (ls *Table) Peek(plan *Plan, partition int, key string, n uint64) limit.Verdict {
	share := &ls.shares[partition]
	now := ls.Clock.Now()
	share.mu.Lock()
	defer share.mu.Unlock()
	a := Request{Plan: plan, Outstanding: share.heldOf(plan, key, now), state: ls.look(share, plan, key, now), grant: ls.granted(share, plan, key, now)}
	return a.peek(now, n)
}

// enter finds or makes the key's state and returns it with its share locked. It looks the key
// up before: the processor waits for memory without the lock. It prefetches the key's bucket and the lock's
// line before it reads the clock. Reading the clock waits for all loads before it, but not for prefetches.
func (ls *Table) enter(plan *Plan, partition int, key string) (st *entry, share *share, now int64, err error) {
	share = &ls.shares[partition]
	hash := ls.hash(plan.Name, key)
	t := ls.tables[partition].Load()
	t.Expect(hash)
	prefetch.Write(unsafe.Pointer(&share.mu))
	now = ls.Clock.Now()
	st = t.Find(hash, key)
	share.mu.Lock()
	if ls.fullFor(plan.Inline) {
		ls.makeSpace(share, plan.Inline, now)
	}
	if st == nil || st.Value.plan == nil || st.Value.plan.Name != plan.Name { // new, it has left, or it is of another limit
		st = share.find(hash, plan.Name, key)
	}
	if st, err = ls.stateFrom(st, share, hash, plan, key, now); err != nil {
		share.mu.Unlock()
		return nil, nil, 0, err
	}
	return st, share, now, nil
}

// decided notes what a decision at the time now changed: the state may have grown,
// or have let go of what is over. The caller holds the share's lock.
func (ls *Table) decided(s *share, st *entry, now int64, n uint64, allowed bool, sizeBefore int) {
	if grown := cellBytes(st) - sizeBefore; grown != 0 {
		ls.grow(st.Value.plan, int64(grown))
	}
	if allowed && st.Value.plan.journaled && n > 0 {
		ls.note(s, st, n, now)
	}
}

// Inline limits come with requests. Their numbers and names are
// the clients', who can ask for a year and for any keys. So what keys have used of them is a
// part of LimitMemory at most, whatever the journal brings back. The limits of the
// program itself have all the rest.

// inlinePart is the part of LimitMemory that inline limits have: one of so many.
const inlinePart = 4

func (ls *Table) inlineBudget() int64 { return ls.budget / inlinePart }

// fullFor tells whether there is no memory for one more state of a plan.
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

// InlineNames are the names of the inline limits that a key of a partition has used.
//
// Cost: O(keys of the partition with limits in use).
func (ls *Table) InlineNames(partition int, key string) (names []string) {
	s := ls.locked(partition)
	defer s.mu.Unlock()
	s.table.Load().Each(func(st *entry) {
		if st.Value.plan.Inline && st.Key() == key {
			names = append(names, st.Value.plan.Name.Name)
		}
	})
	return names
}

// Uses calls f with the keys of a partition that have used something of the limit of a plan's name.
// It counts under that plan, or the one that own returns for the key. Both functions run under the partition's lock of limits.
func (ls *Table) Uses(partition int, plan *Plan, own func(key string) *Plan, f func(u limit.KeyUse)) {
	now := ls.Clock.Now()
	s := ls.locked(partition)
	defer s.mu.Unlock()
	s.table.Load().Each(func(st *entry) {
		if st.Value.plan.Name != plan.Name {
			return
		}
		inForce := plan
		if other := own(st.Key()); other != nil {
			inForce = other
		}
		v := inForce.Peek(&under(st, inForce, now).Value.state, now, 0)
		rule := inForce.Limit()
		if used := rule.Burst - v.Remaining; used > 0 {
			f(limit.KeyUse{Key: st.Key(), Limit: rule, Used: used, Remaining: v.Remaining, Reset: v.Reset})
		}
	})
}

// KeysInUse is how many keys have used some of the limit of a name and not got all of it back.
func (ls *Table) KeysInUse(name *Name) (keys int) {
	now := ls.Clock.Now()
	ls.eachShare(func(_ int, s *share) {
		s.table.Load().Each(func(st *entry) {
			if st.Value.plan.Name == name && !st.Value.plan.Idle(&st.Value.state, now) {
				keys++
			}
		})
	})
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
