package weir

import (
	"fmt"
	"math"
	"slices"
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

// fewChecks is how many most requests have.
const fewChecks = 4

// TakeAll admits a request under several limits of the engine, all or none: if one
// that is not Shadow denies it, nothing is taken of any. verdicts, of the length
// of checks, gets what each limit says by itself. A check of a key and a limit's
// name that came before asks for both together.
//
// The error is an Error with CodeInvalidKey, CodeInvalidCount for more than
// MaxChecks, CodeInvalidLimit for none or another engine's, or CodeOverloaded (see
// KeyedLimit.Take, and Replication.RefuseTakes); nothing is taken then.
// Cost: that of Take for each; it holds the locks of all keys' partitions.
func (e *Engine) TakeAll(checks []Check, verdicts []Verdict) (allowed bool, err error) {
	return e.decideAll(checks, verdicts, true)
}

// PeekAll says what TakeAll would decide, and takes nothing.
func (e *Engine) PeekAll(checks []Check, verdicts []Verdict) (allowed bool, err error) {
	return e.decideAll(checks, verdicts, false)
}

func (e *Engine) decideAll(checks []Check, verdicts []Verdict, take bool) (allowed bool, err error) {
	if len(checks) > MaxChecks || len(verdicts) != len(checks) {
		return false, &Error{CodeInvalidCount, "checks", fmt.Sprintf("%d checks and %d verdicts: must be as many, at most %d", len(checks), len(verdicts), MaxChecks)}
	}
	var room [fewChecks]pending // on the stack, where it is cleared each time
	asked := room[:min(len(checks), fewChecks)]
	if len(checks) > fewChecks {
		asked = make([]pending, len(checks))
	}
	for i, c := range checks {
		if c.Limit == nil || c.Limit.engine != e {
			return false, &Error{CodeInvalidLimit, "limit", fmt.Sprintf("check %d has no limit of this engine: make it with its Limit method", i)}
		}
		if err := checkKey(c.Key); err != nil {
			return false, err
		}
		asked[i] = pending{Check: c, partition: e.partitionOf(c.Key)}
	}
	now := e.limits.clock.now()
	var order [fewChecks]int
	locked := e.limits.lock(order[:0], asked, now)
	defer e.limits.unlock(locked)
	allowed = true
	for i := range asked {
		a := &asked[i]
		a.plan = a.Limit.plan.Load()
		if share := &e.limits.shares[a.partition]; !take || a.N == 0 {
			a.state = e.limits.look(share, a.plan, a.Key, now)
		} else if a.state, err = e.limits.state(share, a.plan, a.Key, now); err != nil {
			return false, err
		}
		verdicts[i] = a.plan.Peek(&a.state.state, now, a.withEarlier(asked[:i]))
		a.passes = verdicts[i].Allowed
		allowed = allowed && (a.passes || a.Shadow)
	}
	if !take || !allowed {
		return allowed, nil
	}
	for i := range asked {
		if a := &asked[i]; a.passes && a.N > 0 {
			if err := e.waiting.refusesTake(a.plan); err != nil {
				return false, err
			}
		}
	}
	for i := range asked {
		if a := &asked[i]; a.passes {
			e.limits.takePeeked(a, &verdicts[i], now)
		}
	}
	return true, nil
}

// takePeeked takes what Peek has allowed. Where two checks are of one key and name,
// and of other limits, the state goes from one to the other; what rounding would
// then refuse is charged anyway.
func (ls *limits) takePeeked(a *pending, verdict *Verdict, now int64) {
	if a.N == 0 {
		return
	}
	if a.state.plan != a.plan {
		ls.adopt(a.state, a.plan, now)
	}
	before := a.state.state.Size()
	if *verdict = a.plan.Take(&a.state.state, now, a.N); !verdict.Allowed {
		a.plan.Charge(&a.state.state, now, a.N)
		*verdict = a.plan.Peek(&a.state.state, now, 0)
	}
	ls.decided(&ls.shares[a.partition], a.state, now, a.N, true, before)
}

// pending is a check on its way.
type pending struct {
	Check
	plan      *limitPlan
	partition int
	state     *limitState
	passes    bool
}

// withEarlier is what the check needs together with those before it that take of
// the same state.
func (a *pending) withEarlier(before []pending) uint64 {
	n := a.N
	for _, b := range before {
		if b.state == a.state && b.passes {
			n += min(b.N, math.MaxUint64-n)
		}
	}
	return n
}

// lock takes the locks of all shares that are asked, in the order of their
// numbers so that two requests never wait for each other, and makes room. It
// returns these numbers, in the memory of locked.
func (ls *limits) lock(locked []int, asked []pending, now int64) []int {
	for _, a := range asked {
		locked = append(locked, a.partition)
	}
	slices.Sort(locked)
	locked = slices.Compact(locked)
	for _, i := range locked {
		ls.shares[i].mu.Lock()
	}
	inline := slices.ContainsFunc(asked, func(a pending) bool { return a.Limit.inline })
	for _, i := range locked {
		if ls.fullFor(inline) {
			ls.makeRoom(&ls.shares[i], inline, now)
		}
	}
	return locked
}

func (ls *limits) unlock(locked []int) {
	for _, i := range locked {
		ls.shares[i].mu.Unlock()
	}
}
