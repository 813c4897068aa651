package weir

import (
	"fmt"

	"github.com/weir-counter/weir/internal/admission"
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

// TakeAll admits a request under several limits of the engine, all or none: if one
// that is not Shadow denies it, nothing is taken of any. verdicts, of the length
// of checks, gets what each limit says by itself. A check of a key and a limit's
// name that came before asks for both together.
//
// The error is an Error with CodeInvalidKey, CodeInvalidCount for more than
// MaxChecks, CodeInvalidLimit for none or another engine's, or CodeOverloaded (see
// KeyedLimit.Take); nothing is taken then.
// Cost: that of Take for each; it holds the locks of all keys' partitions.
func (e *Engine) TakeAll(checks []Check, verdicts []Verdict) (allowed bool, err error) {
	allowed, _, err = e.decideAll(checks, nil, verdicts, true)
	return allowed, err
}

// PeekAll says what TakeAll would decide, and takes nothing.
func (e *Engine) PeekAll(checks []Check, verdicts []Verdict) (allowed bool, err error) {
	allowed, _, err = e.decideAll(checks, nil, verdicts, false)
	return allowed, err
}

// decideAll is TakeAll or PeekAll; beside is nil, or has of each check what is out (internal/limits). at is when
// it was decided, by the clock of limits.
func (e *Engine) decideAll(checks []Check, beside []uint64, verdicts []Verdict, take bool) (allowed bool, at int64, err error) {
	if len(checks) > MaxChecks || len(verdicts) != len(checks) {
		return false, 0, &Error{CodeInvalidCount, "checks", fmt.Sprintf("%d checks and %d verdicts: must be as many, at most %d", len(checks), len(verdicts), MaxChecks)}
	}
	var room [admission.FewRequests]admission.Request // on the stack, where it is cleared each time
	asked := room[:min(len(checks), admission.FewRequests)]
	if len(checks) > admission.FewRequests {
		asked = make([]admission.Request, len(checks))
	}
	for i, c := range checks {
		if c.Limit == nil || c.Limit.engine != e {
			return false, 0, &Error{CodeInvalidLimit, "limit", fmt.Sprintf("check %d has no limit of this engine: make it with its Limit method", i)}
		}
		if err := checkKey(c.Key); err != nil {
			return false, 0, err
		}
		asked[i] = admission.Request{Plan: c.Limit.plan.Load(), Key: c.Key, N: c.N, Shadow: c.Shadow, Partition: e.keys.PartitionOf(c.Key)}
		if beside != nil {
			asked[i].Beside = beside[i]
		}
	}
	allowed, at, err = e.limits.DecideAll(asked, verdicts, take)
	return allowed, at, limitError(err)
}
