package shadow

import (
	"context"
	"time"

	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/limit/whatif"
)

// needShares are the shares of requests that the reported limits deny at most.
var needShares = []float64{0, 0.01}

// need finds the smallest limit with the policy's interval, that is n and burst in their
// ratio, that would have denied at most a share of the requests of the keys that have the
// policy's own limit, had it been alone. It does not look below the limit itself.
//
// Of two limits with one interval the larger denies no more, so it is found by bisection;
// each step decides the whole demand of the keys that ever asked for more than the limit,
// all others are never denied.
func (a *account) need(ctx context.Context, share float64) *Need {
	if a.cut || a.plain == 0 {
		return nil
	}
	w := whatIf{account: a, most: uint64(share * float64(a.plain))}
	for _, r := range a.records {
		if r.whole && r.rule == a.rule {
			w.records = append(w.records, r)
		}
	}
	l := a.rule.limit
	unit := gcd(l.N, l.Burst)
	w.n, w.burst = l.N/unit, l.Burst/unit
	low, high := unit, unit
	for !w.enough(ctx, high) {
		if high > w.largest() {
			return nil // no limit that can be written
		}
		low, high = high, 2*high
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; w.enough(ctx, middle) {
			high = middle
		} else {
			low = middle
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return &Need{Share: share, N: w.n * high, Burst: w.burst * high, Denied: w.denied(ctx, high), OrLess: high == unit}
}

// whatIf decides the demand of a limit's keys under other limits: n and burst, times a
// factor.
type whatIf struct {
	account  *account
	records  []*record
	n, burst uint64
	most     uint64 // denials
}

// largest is a factor beyond which no limit is possible: MaxBurst is also more than the
// most admissions of the longest period.
func (w *whatIf) largest() uint64 { return limit.MaxBurst / max(w.n, w.burst) }

func (w *whatIf) enough(ctx context.Context, factor uint64) bool {
	return w.denied(ctx, factor) <= w.most
}

// denied is how many requests a limit denies; it stops counting beyond most. A limit that
// cannot be written denies all.
func (w *whatIf) denied(ctx context.Context, factor uint64) (denied uint64) {
	l := w.account.rule.limit
	l.N, l.Burst = w.n*factor, w.burst*factor
	plan, err := limit.New(l)
	if err != nil {
		return w.account.plain
	}
	for _, r := range w.records {
		if ctx.Err() != nil {
			return denied
		}
		if r.peak > l.Burst/2 { // else two intervals, all that a limit remembers, never have more than the burst
			denied += deniedOf(plan, r, w.most-denied)
		}
		if denied > w.most {
			break
		}
	}
	return denied
}

// deniedOf counts the denials of one key, until there are more than most.
func deniedOf(plan *limit.Plan, r *record, most uint64) (denied uint64) {
	var s limit.State
	r.each(func(at int64, n uint64) bool {
		denied += n - whatif.Take(plan, &s, at*int64(time.Second), n)
		return denied <= most
	})
	return denied
}

func gcd(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
