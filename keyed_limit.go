package weir

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weir-counter/weir/internal/admission"
	"github.com/weir-counter/weir/limit"
)

// KeyedLimit is a limit of an Engine that each key has for itself: 10 per second
// for each user, say. It is safe for many goroutines.
type KeyedLimit struct {
	keyedSide

	engine    *Engine
	name      *admission.Name // that its states are kept by
	shown     string
	journaled bool // whatever the period
	strict    bool // one node decides for all, who may lend
	leased    bool // strict, and that node lends
	inline    bool
	plan      atomic.Pointer[admission.Plan]
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
	return e.keyedLimit(name, name, l, func(*KeyedLimit) {})
}

// keyedLimit makes the limit ready, under the name that its states are kept by.
func (e *Engine) keyedLimit(name, shown string, l Limit, set func(made *KeyedLimit)) (*KeyedLimit, error) {
	if _, err := limit.New(l); err != nil { // first: a limit that can't be holds no name
		return nil, &Error{CodeInvalidLimit, "limit", err.Error()}
	}
	held, err := e.limits.Hold(name)
	if err != nil {
		return nil, limitError(err)
	}
	made := e.newKeyedLimit(held, shown)
	set(made)
	return made, made.SetLimit(l)
}

// InUse tells whether some key has used of the limit, or of another one of its
// name.
func (l *KeyedLimit) InUse() bool { return l.name.InUse() }

// Release says that the limit is asked no more: its name is forgotten when no key
// has it in use, and makes room for another. Without it, an engine takes 10,000
// names.
func (l *KeyedLimit) Release() {
	l.engine.limits.Release(l.name)
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
	made := l.engine.limits.NewPlan(l.name, plan, l.journaled, l.strict, l.inline)
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
	if checkKey(key) != nil {
		return false
	}
	return l.engine.limits.Allow(l.plan.Load(), l.engine.keys.PartitionOf(key), key, n)
}

// Take admits n requests of the key now, all or none, and says what is left and
// when to try again. A denied request uses nothing. The error is an Error with
// CodeInvalidKey, or CodeOverloaded if LimitMemory is full of keys whose limits
// are in use, so that no key is forgotten into a fresh allowance, or if a journal takes
// no admissions.
func (l *KeyedLimit) Take(key string, n uint64) (Verdict, error) {
	if err := checkKey(key); err != nil {
		return Verdict{}, err
	}
	v, err := l.engine.limits.Take(l.plan.Load(), l.engine.keys.PartitionOf(key), key, n)
	return v, limitError(err)
}

// Peek says what Take would decide, and takes nothing. It needs no memory.
func (l *KeyedLimit) Peek(key string, n uint64) (Verdict, error) {
	if err := checkKey(key); err != nil {
		return Verdict{}, err
	}
	return l.engine.limits.Peek(l.plan.Load(), l.engine.keys.PartitionOf(key), key, n), nil
}

func checkLimitName(name string) error {
	if !admission.IsLimitName(name) {
		return &Error{CodeInvalidLimit, "limit", fmt.Sprintf("the name %.80q of a limit: must be 1 to %d letters, digits or any of ._/-", name, MaxLimitNameBytes)}
	}
	return nil
}

// limitError is the error of a decision that there was no room, or no journal, for.
func limitError(err error) error {
	if full, ok := errors.AsType[*admission.OverloadedError](err); ok {
		return &Error{CodeOverloaded, "limit", full.Message}
	}
	return err
}
