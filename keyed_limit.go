package weir

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/weir-counter/weir/limit"
)

// KeyedLimit is a limit of an Engine that each key has for itself: 10 per second
// for each user, say. It is safe for many goroutines.
type KeyedLimit struct {
	engine    *Engine
	name      *limitName // that its states are kept by
	shown     string
	journaled bool // whatever the period
	strict    bool
	inline    bool
	plan      atomic.Pointer[limitPlan]
}

// MaxLimitNameBytes is the longest name of a limit, in bytes.
const MaxLimitNameBytes = 64

// Limit returns the engine's limit of a name, 1 to MaxLimitNameBytes letters,
// digits and any of ._/- long, for the keys that it is asked for. What a key has
// used is kept by name: a limit made again under its name, with the same numbers or
// others, grants no fresh allowance. Two that are in use at once under one name
// count each other's admissions.
//
// Limits with a period of a minute or more survive a restart, if a journal runs.
func (e *Engine) Limit(name string, l Limit) (*KeyedLimit, error) {
	if err := checkLimitName(name); err != nil {
		return nil, err
	}
	return e.keyedLimit(&KeyedLimit{shown: name}, name, l)
}

// keyedLimit makes the limit ready, under the name that its states are kept by.
func (e *Engine) keyedLimit(made *KeyedLimit, name string, l Limit) (*KeyedLimit, error) {
	if _, err := limit.New(l); err != nil { // first: a limit that can't be holds no name
		return nil, &Error{CodeInvalidLimit, "limit", err.Error()}
	}
	held, err := e.limits.hold(name)
	if err != nil {
		return nil, err
	}
	made.engine, made.name = e, held
	return made, made.SetLimit(l)
}

// InUse tells whether some key has used of the limit, or of another one of its
// name.
func (l *KeyedLimit) InUse() bool { return l.name.states.Load() > 0 }

// Release says that the limit is asked no more: its name is forgotten when no key
// has it in use, and makes room for another. Without it, an engine takes 10,000
// names.
func (l *KeyedLimit) Release() {
	l.engine.limits.release(l.name)
}

func checkLimitName(name string) error {
	const others = "._/-"
	if !isName(name, others) {
		return &Error{CodeInvalidLimit, "limit", fmt.Sprintf("the name %.80q of a limit: must be 1 to %d letters, digits or any of %s", name, MaxLimitNameBytes, others)}
	}
	return nil
}

// isName is whether s is 1 to MaxLimitNameBytes letters, digits or any of others.
func isName(s, others string) bool {
	for i := range len(s) {
		if c := s[i]; !('a' <= c|0x20 && c|0x20 <= 'z') && !('0' <= c && c <= '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= MaxLimitNameBytes
}

// Name is the limit's name, as it was given.
func (l *KeyedLimit) Name() string { return l.shown }

// Limit is what each key may do, the burst filled in.
func (l *KeyedLimit) Limit() Limit { return l.plan.Load().Limit() }

// SetLimit changes the limit of all keys while it is in use. It grants no fresh
// allowance: what was admitted before counts under the new limit too.
func (l *KeyedLimit) SetLimit(to Limit) error {
	plan, err := limit.New(to)
	if err != nil {
		return &Error{CodeInvalidLimit, "limit", err.Error()}
	}
	made := &limitPlan{Plan: plan, name: l.name, strict: l.strict, inline: l.inline}
	if l.engine.cfg.Gather {
		made.journaled = l.journaled || to.Per >= journaledPer
		made.record = limitRecord(l.name.name, plan.Limit(), made.flags())
	}
	l.plan.Store(made)
	return nil
}

// Allow admits one request of the key now, if its limit lets it. It is also false
// for a key that no limit can be kept for: Take says why.
//
// Cost: a look-up under the lock of the key's partition; O(1). No allocation
// but for a key whose limit was not in use.
func (l *KeyedLimit) Allow(key string) bool { return l.AllowN(key, 1) }

// AllowN admits n requests of the key now, all or none.
func (l *KeyedLimit) AllowN(key string, n uint64) bool {
	st, share, now, err := l.enter(key)
	if err != nil {
		return false
	}
	defer share.mu.Unlock()
	if n > 0 && l.engine.waiting.refusesTake(st.plan) != nil {
		return false
	}
	before := st.state.Size()
	allowed := st.plan.Allow(&st.state, now, n)
	l.engine.limits.decided(share, st, now, n, allowed, before)
	return allowed
}

// Take admits n requests of the key now, all or none, and says what is left and
// when to try again. A denied request uses nothing. The error is an Error with
// CodeInvalidKey, or CodeOverloaded if LimitMemory is full of keys whose limits
// are in use, so that no key is forgotten into a fresh allowance, or if a journal takes
// no admissions (Replication.RefuseTakes).
func (l *KeyedLimit) Take(key string, n uint64) (Verdict, error) {
	st, share, now, err := l.enter(key)
	if err != nil {
		return Verdict{}, err
	}
	defer share.mu.Unlock()
	if refused := l.engine.waiting.refusesTake(st.plan); refused != nil && n > 0 {
		if v := st.plan.Peek(&st.state, now, n); !v.Allowed {
			return v, nil
		}
		return Verdict{}, refused
	}
	before := st.state.Size()
	v := st.plan.Take(&st.state, now, n)
	l.engine.limits.decided(share, st, now, n, v.Allowed, before)
	return v, nil
}

// Peek says what Take would decide, and takes nothing. It needs no memory.
func (l *KeyedLimit) Peek(key string, n uint64) (Verdict, error) {
	if err := checkKey(key); err != nil {
		return Verdict{}, err
	}
	ls := &l.engine.limits
	plan := l.plan.Load()
	share := &ls.shares[l.engine.partitionOf(key)]
	now := ls.clock.now()
	share.mu.Lock()
	defer share.mu.Unlock()
	st := ls.look(share, plan, key, now)
	return plan.Peek(&st.state, now, n), nil
}

// enter finds or makes the key's state and returns it with its share locked.
func (l *KeyedLimit) enter(key string) (st *limitState, share *limitShare, now int64, err error) {
	if err := checkKey(key); err != nil {
		return nil, nil, 0, err
	}
	ls := &l.engine.limits
	plan := l.plan.Load()
	share = &ls.shares[l.engine.partitionOf(key)]
	now = ls.clock.now()
	share.mu.Lock()
	if ls.fullFor(plan.inline) {
		ls.makeRoom(share, plan.inline, now)
	}
	if st, err = ls.state(share, plan, key, now); err != nil {
		share.mu.Unlock()
		return nil, nil, 0, err
	}
	return st, share, now, nil
}

// decided notes what a decision at the time now changed: the state may have grown,
// or have let go of what is over. The caller holds the share's lock.
func (ls *limits) decided(s *limitShare, st *limitState, now int64, n uint64, allowed bool, sizeBefore int) {
	if grown := st.state.Size() - sizeBefore; grown != 0 {
		ls.grow(st.plan, int64(grown))
	}
	if allowed && st.plan.journaled && n > 0 {
		s.note(st, n, now)
	}
}
