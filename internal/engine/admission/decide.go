package admission

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/limit"
)

// Check is one limit that a request must pass.
type Check struct {
	Limit  *KeyedLimit
	Key    string
	N      uint64 // admissions that the request takes; 0 asks only
	Shadow bool   // its verdict denies nothing
}

// MaxChecks is how many limits one request may have.
const MaxChecks = 64

// TakeAll admits a request under several limits of the engine, all or none. If a check that is not Shadow denies it, no
// limit is used. verdicts, of the length of checks, gets the answer of each limit on its own. If an earlier check has
// the same key and limit name, a check asks for both together.
//
// After an Error nothing is taken. Its code is api.CodeInvalidKey, api.CodeInvalidCount for more than MaxChecks,
// api.CodeInvalidLimit for no limit or another engine's, or api.CodeOverloaded (see KeyedLimit.Take). Cost: the cost of
// Take for each check; it holds the locks of all keys' partitions.
func (ls *Table) TakeAll(checks []Check, verdicts []limit.Verdict) (allowed bool, err error) {
	allowed, _, err = ls.DecideAll(checks, nil, verdicts, true)
	return allowed, err
}

// PeekAll says what TakeAll would decide, and takes nothing.
func (ls *Table) PeekAll(checks []Check, verdicts []limit.Verdict) (allowed bool, err error) {
	allowed, _, err = ls.DecideAll(checks, nil, verdicts, false)
	return allowed, err
}

// DecideAll is TakeAll or PeekAll. outstanding, unless nil, has for each check the admissions that count as used in
// addition to the state. at is when it was decided, by Clock.
func (ls *Table) DecideAll(checks []Check, outstanding []uint64, verdicts []limit.Verdict, take bool) (allowed bool, at int64, err error) {
	if len(checks) > MaxChecks || len(verdicts) != len(checks) {
		return false, 0, &keyspace.Error{Code: api.CodeInvalidCount, Field: "checks", Message: fmt.Sprintf("%d checks and %d verdicts: must be as many, at most %d", len(checks), len(verdicts), MaxChecks)}
	}
	var space [fewRequests]request // on the stack, where it is cleared each time
	asked := space[:min(len(checks), fewRequests)]
	if len(checks) > fewRequests {
		asked = make([]request, len(checks))
	}
	for i, c := range checks {
		if c.Limit == nil || c.Limit.table != ls {
			return false, 0, &keyspace.Error{Code: api.CodeInvalidLimit, Field: "limit", Message: fmt.Sprintf("check %d has no limit of this engine: make it with its Limit method", i)}
		}
		if err := keyspace.CheckKey(c.Key); err != nil {
			return false, 0, err
		}
		asked[i] = request{Check: c, plan: c.Limit.plan.Load(), partition: ls.partitionOf(c.Key)}
		if outstanding != nil {
			asked[i].outstanding = outstanding[i]
		}
	}
	return ls.decideAll(asked, verdicts, take)
}

// request is a Check on its way to a decision.
type request struct {
	Check
	plan        *Plan
	partition   int    // of the key
	outstanding uint64 // admissions that are out (outstanding.go): as good as taken

	state  *entry
	grant  *grant
	passes bool
}

// fewRequests is how many limits most requests have.
const fewRequests = 4

// decideAll is DecideAll of checks that are sound.
func (ls *Table) decideAll(asked []request, verdicts []limit.Verdict, take bool) (allowed bool, now int64, err error) {
	now = ls.Clock.Now()
	var order [fewRequests]int
	locked := ls.lock(order[:0], asked, now)
	defer ls.unlock(locked)
	allowed = true
	for i := range asked {
		a := &asked[i]
		if share := &ls.shares[a.partition]; !take || a.N == 0 {
			a.state = ls.look(share, a.plan, a.Key, now)
		} else if a.state, err = ls.state(share, a.plan, a.Key, now); err != nil {
			return false, now, err
		}
		a.grant = ls.granted(&ls.shares[a.partition], a.plan, a.Key, now)
		a.outstanding += ls.shares[a.partition].heldOf(a.plan, a.Key, now)
		verdicts[i] = a.peek(now, a.withEarlier(asked[:i]))
		a.passes = verdicts[i].Allowed
		allowed = allowed && (a.passes || a.Shadow)
	}
	if !take || !allowed {
		return allowed, now, nil
	}
	for i := range asked {
		if a := &asked[i]; a.passes && a.N > 0 {
			if err := ls.refusesTake(a.plan); err != nil {
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

// takePeeked takes what Peek has allowed. Where two checks have the same key and name
// but different limits, the state goes from one to the other; what rounding would
// then refuse is charged anyway.
func (ls *Table) takePeeked(a *request, verdict *limit.Verdict, now int64) {
	if a.N == 0 {
		return
	}
	if a.state.Value.plan != a.plan {
		ls.adopt(a.state, a.plan, now)
	}
	if a.grant != nil {
		*verdict = ls.takeGranted(a, now)
		return
	}
	before := cellBytes(a.state)
	if *verdict = a.plan.Take(&a.state.Value.state, now, a.N); !verdict.Allowed {
		a.plan.Charge(&a.state.Value.state, now, a.N)
		*verdict = a.plan.Peek(&a.state.Value.state, now, 0)
	}
	verdict.Remaining -= min(verdict.Remaining, a.outstanding)
	ls.decided(&ls.shares[a.partition], a.state, now, a.N, true, before)
}

// withEarlier is what the check needs together with those before it that take of
// the same state.
func (a *request) withEarlier(before []request) uint64 {
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
func (ls *Table) lock(locked []int, asked []request, now int64) []int {
	for _, a := range asked {
		locked = append(locked, a.partition)
	}
	slices.Sort(locked)
	locked = slices.Compact(locked)
	for _, i := range locked {
		ls.shares[i].mu.Lock()
	}
	inline := slices.ContainsFunc(asked, func(a request) bool { return a.plan.Inline })
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

// Allow admits one request of the key now, if its limit lets it. It is also false
// for a key that no limit can be kept for: Take says why.
//
// Cost: a look-up under the lock of the key's partition; O(1). No allocation but for a key whose limit was not in use.
func (l *KeyedLimit) Allow(key string) bool { return l.AllowN(key, 1) }

// AllowN admits n requests of the key now, all or none.
func (l *KeyedLimit) AllowN(key string, n uint64) bool {
	if keyspace.CheckKey(key) != nil {
		return false
	}
	ls, plan := l.table, l.plan.Load()
	st, share, now, err := ls.enter(plan, key)
	if err != nil {
		return false
	}
	defer share.mu.Unlock()
	if n > 0 && ls.refusesTake(st.Value.plan) != nil {
		return false
	}
	if held, g := share.heldOf(plan, key, now), ls.granted(share, plan, key, now); held > 0 || g != nil {
		v, err := ls.takeWith(request{Check: Check{Key: key, N: n}, plan: plan, partition: ls.partitionOf(key), outstanding: held, state: st, grant: g}, now)
		return v.Allowed && err == nil
	}
	before := cellBytes(st)
	allowed := st.Value.plan.Allow(&st.Value.state, now, n)
	ls.decided(share, st, now, n, allowed, before)
	return allowed
}

// Take admits n requests of the key now, all or none, and says what is left and when to try again. A denied request
// uses nothing. The error is an Error with one of these codes:
//
//   - api.CodeInvalidKey
//   - api.CodeOverloaded: LimitMemory is full of keys whose limits are in use, or a journal takes no admissions. The
//     engine never forgets a limit in use, because its key would get a fresh allowance.
func (l *KeyedLimit) Take(key string, n uint64) (limit.Verdict, error) {
	if err := keyspace.CheckKey(key); err != nil {
		return limit.Verdict{}, err
	}
	ls, plan := l.table, l.plan.Load()
	st, share, now, err := ls.enter(plan, key)
	if err != nil {
		return limit.Verdict{}, err
	}
	defer share.mu.Unlock()
	held, g := share.heldOf(plan, key, now), ls.granted(share, plan, key, now)
	if held > 0 || g != nil || n > 0 && ls.refusesTake(plan) != nil {
		return ls.takeWith(request{Check: Check{Key: key, N: n}, plan: plan, partition: ls.partitionOf(key), outstanding: held, state: st, grant: g}, now)
	}
	before := cellBytes(st)
	v := st.Value.plan.Take(&st.Value.state, now, n)
	ls.decided(share, st, now, n, v.Allowed, before)
	return v, nil
}

// Peek says what Take would decide, and takes nothing. It needs no memory.
func (l *KeyedLimit) Peek(key string, n uint64) (limit.Verdict, error) {
	if err := keyspace.CheckKey(key); err != nil {
		return limit.Verdict{}, err
	}
	ls, plan := l.table, l.plan.Load()
	now := ls.Clock.Now()
	share := ls.lockedOf(key)
	defer share.mu.Unlock()
	a := request{plan: plan, outstanding: share.heldOf(plan, key, now), state: ls.look(share, plan, key, now), grant: ls.granted(share, plan, key, now)}
	return a.peek(now, n), nil
}

// enter finds or makes the key's state and returns it with its share locked. It looks the key
// up before: the processor waits for memory without the lock. It prefetches the key's bucket and the lock's
// line before it reads the clock. Reading the clock waits for all loads before it, but not for prefetches.
func (ls *Table) enter(plan *Plan, key string) (st *entry, share *share, now int64, err error) {
	partition := ls.partitionOf(key)
	share = &ls.shares[partition]
	hash := ls.hash(plan.Name, key)
	t := ls.tables[partition].Load()
	t.Expect(hash)
	keyspace.PrefetchWrite(unsafe.Pointer(&share.mu))
	now = ls.Clock.Now()
	st = t.Find(hash, key)
	share.mu.Lock()
	if ls.fullFor(plan.Inline) {
		ls.makeSpace(share, plan.Inline, now)
	}
	if st == nil || st.Value.plan == nil || st.Value.plan.Name != plan.Name { // it is new, has left, or belongs to another limit
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

// fullFor reports whether there is no memory for one more state of a plan.
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

// InlineNames are the names of the inline limits of which a key has used something, as far as it is known here.
//
// Cost: O(keys with limits in use) of one partition.
func (ls *Table) InlineNames(key string) (names []string) {
	s := ls.lockedOf(key)
	defer s.mu.Unlock()
	s.table.Load().Each(func(st *entry) {
		if st.Value.plan.Inline && st.Key() == key {
			names = append(names, st.Value.plan.Name.Name)
		}
	})
	return names
}

// Keys returns the keys that have used the largest shares of their bursts, the fullest first. Keys at 1 are denied now.
// Keys that have used nothing are left out. It is what this engine knows, of all partitions.
//
// Cost: O(keys with limits in use), a partition at a time.
func (l *KeyedLimit) Keys(most int) []limit.KeyUse {
	uses, _ := l.KeysUnder(most, func(string) (limit.Limit, bool) { return limit.Limit{}, false }) // only a key's own limit can be refused
	return uses
}

// KeysUnder is Keys where keys that own returns a limit for have that one. An invalid one is api.CodeInvalidLimit. own must not call
// the engine.
func (l *KeyedLimit) KeysUnder(most int, own func(key string) (limit.Limit, bool)) ([]limit.KeyUse, error) {
	plans := map[limit.Limit]*Plan{}
	var wrong error
	planOf := func(key string) *Plan {
		limited, ok := own(key)
		if !ok {
			return nil
		}
		plan, known := plans[limited]
		if !known {
			made, err := l.newPlan(limited)
			if err != nil {
				wrong = err
				return nil
			}
			plan, plans[limited] = made, made
		}
		return plan
	}
	list := fullestUses{most: most}
	now := l.table.Clock.Now()
	l.table.eachShare(func(_ int, s *share) {
		l.uses(s, now, planOf, func(u limit.KeyUse) { list.all = append(list.all, u) })
		list.trim()
	})
	return list.sorted(), wrong
}

// uses calls f with the keys of a share that have used something of the limit. It counts under the limit's plan, or the one that own
// returns for the key. The caller holds s.mu.
func (l *KeyedLimit) uses(s *share, now int64, own func(key string) *Plan, f func(u limit.KeyUse)) {
	s.table.Load().Each(func(st *entry) {
		if st.Value.plan.Name != l.name {
			return
		}
		inForce := cmp.Or(own(st.Key()), l.plan.Load())
		v := inForce.Peek(&under(st, inForce, now).Value.state, now, 0)
		rule := inForce.Limit()
		if used := rule.Burst - v.Remaining; used > 0 {
			f(limit.KeyUse{Key: st.Key(), Limit: rule, Used: used, Remaining: v.Remaining, Reset: v.Reset})
		}
	})
}

// fullestUses gathers the most of the uses that come first.
type fullestUses struct {
	most int
	all  []limit.KeyUse
}

// trim drops what others come before, when there is much of it.
func (f *fullestUses) trim() {
	if len(f.all) > 2*f.most+1024 {
		f.sorted()
	}
}

func (f *fullestUses) sorted() []limit.KeyUse {
	slices.SortFunc(f.all, limit.KeyUse.Compare)
	f.all = f.all[:min(len(f.all), max(f.most, 0))]
	return f.all
}

// KeysInUse returns how many keys have used some of the limit and not got all of it back, as far as this engine knows.
//
// Cost: O(keys with limits in use), a partition at a time.
func (l *KeyedLimit) KeysInUse() (keys int) {
	now := l.table.Clock.Now()
	l.table.eachShare(func(_ int, s *share) {
		s.table.Load().Each(func(st *entry) {
			if st.Value.plan.Name == l.name && !st.Value.plan.Idle(&st.Value.state, now) {
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
