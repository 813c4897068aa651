package admission

import (
	"math"
	"slices"

	"github.com/weir-counter/weir/limit"
)

// Request is one limit that a request must pass.
type Request struct {
	Plan      *Plan
	Key       string
	N         uint64 // admissions that it takes; 0 asks only
	Shadow    bool   // its verdict denies nothing
	Partition int    // of the key
	Beside    uint64 // admissions that are out (out.go): as good as taken

	state  *entry
	grant  *grant
	passes bool
}

// FewRequests is how many limits most requests have.
const FewRequests = 4

// DecideAll admits a request under several limits, all or none: see weir.Engine.TakeAll.
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
	if a.grant != nil && a.Beside > 0 {
		*verdict = ls.takeBeside(a, now)
		return
	}
	if a.grant != nil {
		*verdict = ls.takeOf(&ls.shares[a.Partition], a.grant, a.state, now, a.N)
		return
	}
	before := cellBytes(a.state)
	if *verdict = a.Plan.Take(&a.state.Value.state, now, a.N); !verdict.Allowed {
		a.Plan.Charge(&a.state.Value.state, now, a.N)
		*verdict = a.Plan.Peek(&a.state.Value.state, now, 0)
	}
	verdict.Remaining -= min(verdict.Remaining, a.Beside)
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
// numbers so that two requests never wait for each other, and makes room. It
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
			ls.makeRoom(&ls.shares[i], inline, now)
		}
	}
	return locked
}

func (ls *Table) unlock(locked []int) {
	for _, i := range locked {
		ls.shares[i].mu.Unlock()
	}
}
