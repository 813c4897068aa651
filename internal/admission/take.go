package admission

import (
	"unsafe"

	"github.com/weir-counter/weir/internal/prefetch"
	"github.com/weir-counter/weir/limit"
)

// Allow admits n requests of a key under a plan, all or none. It is also false for a key that
// there is no room for.
func (ls *Table) Allow(plan *Plan, partition int, key string, n uint64) bool {
	st, share, now, err := ls.enter(plan, partition, key)
	if err != nil {
		return false
	}
	defer share.mu.Unlock()
	if n > 0 && ls.refusesTake(st.Value.plan) != nil {
		return false
	}
	if g := ls.granted(share, plan, key, now); g != nil {
		return ls.takeOf(share, g, st, now, n).Allowed
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
	g := ls.granted(share, plan, key, now)
	if refused := ls.refusesTake(st.Value.plan); refused != nil && n > 0 {
		if v := g.peek(st.Value.plan, &st.Value.state, now, n); !v.Allowed {
			return v, nil
		}
		return limit.Verdict{}, refused
	}
	if g != nil {
		return ls.takeOf(share, g, st, now, n), nil
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
	st := ls.look(share, plan, key, now)
	return ls.granted(share, plan, key, now).peek(plan, &st.Value.state, now, n)
}

// enter finds or makes the key's state and returns it with its share locked. It looks the key
// up before: the processor waits for memory without the lock. It asks for the key's bucket, and for the lock's
// line from the core that had it last, before it reads the clock: that waits for all loads before it, but not for
// what was merely asked for.
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
		ls.makeRoom(share, plan.Inline, now)
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
		s.note(st, n, now)
	}
}
