package engine

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/limit"
)

// KeyedLimit is a limit of an Engine that each key has for itself: 10 per second
// for each user, say. It is safe for many goroutines.
type KeyedLimit struct {
	engine    *Engine
	name      *admission.Name // that its states are kept by
	shown     string
	journaled bool // whatever the period
	strict    bool // one node decides for all, and may grant quota leases
	leased    bool // strict, and that node grants quota leases
	inline    bool
	plan      atomic.Pointer[admission.Plan]
}

// MaxLimitNameBytes is the longest name of a limit, in bytes.
const MaxLimitNameBytes = 64

// Limit returns the engine's limit of a name. The name has 1 to MaxLimitNameBytes letters, digits and any of ._/- in
// it. The engine keeps what a key has used by the limit's name. A limit made again under its name grants no fresh
// allowance, even with other numbers. Two limits in use at once under one name count each other's admissions.
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
		return nil, &Error{Code: api.CodeInvalidLimit, Field: "limit", Message: err.Error()}
	}
	held, err := e.limits.Hold(name)
	if err != nil {
		return nil, err
	}
	made := e.newKeyedLimit(held, shown)
	set(made)
	return made, made.SetLimit(l)
}

// InUse tells whether some key has used of the limit, or of another one of its name.
func (l *KeyedLimit) InUse() bool { return l.name.InUse() }

// Release says that the caller no longer uses the limit. The engine forgets the name once no key has it in use, and can
// then take another name. Without Release, an engine takes 10,000 names.
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
		return &Error{Code: api.CodeInvalidLimit, Field: "limit", Message: err.Error()}
	}
	made := l.engine.limits.NewPlan(l.name, plan, l.journaled, l.strict, l.inline)
	l.plan.Store(made)
	return nil
}

// Allow admits one request of the key now, if its limit lets it. It is also false
// for a key that no limit can be kept for: Take says why.
//
// Cost: a look-up under the lock of the key's partition; O(1). No allocation but for a key whose limit was not in use.
func (l *KeyedLimit) Allow(key string) bool { return l.AllowN(key, 1) }

// AllowN admits n requests of the key now, all or none.
func (l *KeyedLimit) AllowN(key string, n uint64) bool {
	if checkKey(key) != nil {
		return false
	}
	return l.engine.limits.Allow(l.plan.Load(), l.engine.keys.PartitionOf(key), key, n)
}

// Take admits n requests of the key now, all or none, and says what is left and when to try again. A denied request
// uses nothing. The error is an Error with one of these codes:
//
//   - api.CodeInvalidKey
//   - api.CodeOverloaded: LimitMemory is full of keys whose limits are in use, or a journal takes no admissions. The
//     engine never forgets a limit in use, because its key would get a fresh allowance.
func (l *KeyedLimit) Take(key string, n uint64) (Verdict, error) {
	if err := checkKey(key); err != nil {
		return Verdict{}, err
	}
	return l.engine.limits.Take(l.plan.Load(), l.engine.keys.PartitionOf(key), key, n)
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
		return &Error{Code: api.CodeInvalidLimit, Field: "limit", Message: fmt.Sprintf("the name %.80q of a limit: must be 1 to %d letters, digits or any of ._/-", name, MaxLimitNameBytes)}
	}
	return nil
}

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
func (e *Engine) TakeAll(checks []Check, verdicts []Verdict) (allowed bool, err error) {
	allowed, _, err = e.DecideAll(checks, nil, verdicts, true)
	return allowed, err
}

// PeekAll says what TakeAll would decide, and takes nothing.
func (e *Engine) PeekAll(checks []Check, verdicts []Verdict) (allowed bool, err error) {
	allowed, _, err = e.DecideAll(checks, nil, verdicts, false)
	return allowed, err
}

// DecideAll is TakeAll or PeekAll. outstanding, unless nil, has for each check the admissions that count as used in
// addition to the state. at is when it was decided, by the clock of limits.
func (e *Engine) DecideAll(checks []Check, outstanding []uint64, verdicts []Verdict, take bool) (allowed bool, at int64, err error) {
	if len(checks) > MaxChecks || len(verdicts) != len(checks) {
		return false, 0, &Error{Code: api.CodeInvalidCount, Field: "checks", Message: fmt.Sprintf("%d checks and %d verdicts: must be as many, at most %d", len(checks), len(verdicts), MaxChecks)}
	}
	var space [admission.FewRequests]admission.Request // on the stack, where it is cleared each time
	asked := space[:min(len(checks), admission.FewRequests)]
	if len(checks) > admission.FewRequests {
		asked = make([]admission.Request, len(checks))
	}
	for i, c := range checks {
		if c.Limit == nil || c.Limit.engine != e {
			return false, 0, &Error{Code: api.CodeInvalidLimit, Field: "limit", Message: fmt.Sprintf("check %d has no limit of this engine: make it with its Limit method", i)}
		}
		if err := checkKey(c.Key); err != nil {
			return false, 0, err
		}
		asked[i] = admission.Request{Plan: c.Limit.plan.Load(), Key: c.Key, N: c.N, Shadow: c.Shadow, Partition: e.keys.PartitionOf(c.Key)}
		if outstanding != nil {
			asked[i].Outstanding = outstanding[i]
		}
	}
	return e.limits.DecideAll(asked, verdicts, take)
}

// Known appends what this engine knows of a key's admissions that still count, the oldest first. Each has the latest
// time of day at which it may have been, in ns since 1970. It may have been earlier by up to doubt. Known takes
// nothing. raw is the present replication.Clock.UncorrectedWall of the engine. Cost: a decision, and O(34).
func (l *KeyedLimit) Known(key string, raw time.Time, list []limit.Admitted) (known []limit.Admitted, doubt time.Duration) {
	if checkKey(key) != nil {
		return list, 0
	}
	return l.engine.limits.Known(l.plan.Load(), l.engine.keys.PartitionOf(key), key, raw, list)
}

// Wait returns when a request of the key was admitted: it asks, and asks again when the limit would let it pass. Calls of
// one key are not in order, and one may wait longer than those that come after it. It fails at once if ctx would end
// before, and has taken nothing when it fails.
func (l *KeyedLimit) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN is Wait for n requests at once. More than the burst is an Error with api.CodeInvalidCount. Other errors are as
// of Take.
func (l *KeyedLimit) WaitN(ctx context.Context, key string, n uint64) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v, err := l.Take(key, n)
		switch {
		case err != nil || v.Allowed:
			return err
		case v.Never:
			return &Error{Code: api.CodeInvalidCount, Field: "n", Message: fmt.Sprintf("n of %d can never pass: the burst is %d", n, l.Limit().Burst)}
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < v.RetryAfter {
			return fmt.Errorf("the limit lets this pass in %v: %w", v.RetryAfter, context.DeadlineExceeded)
		}
		timer := time.NewTimer(max(v.RetryAfter, time.Millisecond))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// Keys returns the keys that have used the largest shares of their bursts, the fullest first. Keys at 1 are denied now.
// Keys that have used nothing are left out. It is what this engine knows, of all partitions.
//
// Cost: O(keys with limits in use), a partition at a time.
func (l *KeyedLimit) Keys(most int) []KeyUse {
	uses, _ := l.KeysUnder(most, func(string) (Limit, bool) { return Limit{}, false }) // only a key's own limit can be refused
	return uses
}

// KeysUnder is Keys where keys that own returns a limit for have that one. An invalid one is api.CodeInvalidLimit. own must not call
// the engine.
func (l *KeyedLimit) KeysUnder(most int, own func(key string) (Limit, bool)) ([]KeyUse, error) {
	plans := map[Limit]*admission.Plan{}
	var wrong error
	planOf := func(key string) *admission.Plan {
		limited, ok := own(key)
		if !ok {
			return nil
		}
		plan, known := plans[limited]
		if !known {
			made, err := limit.New(limited)
			if err != nil {
				wrong = &Error{Code: api.CodeInvalidLimit, Field: "limit", Message: err.Error()}
				return nil
			}
			plan = l.engine.limits.NewPlan(l.name, made, l.journaled, l.strict, l.inline)
			plans[limited] = plan
		}
		return plan
	}
	list := fullestUses{most: most}
	for i := range l.engine.cfg.Partitions {
		list.add(l.engine.limits, i, l.plan.Load(), planOf)
	}
	return list.sorted(), wrong
}

// KeysInUse returns how many keys have used some of the limit and not got all of it back, as far as this engine knows.
//
// Cost: O(keys with limits in use), a partition at a time.
func (l *KeyedLimit) KeysInUse() (keys int) { return l.engine.limits.KeysInUse(l.name) }

// fullestUses gathers the most of the uses that come first.
type fullestUses struct {
	most int
	list []KeyUse
}

func (f *fullestUses) add(ls *admission.Table, partition int, plan *admission.Plan, own func(key string) *admission.Plan) {
	ls.Uses(partition, plan, own, func(u KeyUse) { f.list = append(f.list, u) })
	if len(f.list) > 2*f.most+1024 {
		f.sorted()
	}
}

func (f *fullestUses) sorted() []KeyUse {
	slices.SortFunc(f.list, KeyUse.Compare)
	f.list = f.list[:min(len(f.list), max(f.most, 0))]
	return f.list
}
