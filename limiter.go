package weir

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/limit"
)

// Limiter keeps one limit, for many goroutines, by its own monotonic clock: the time of day may
// jump. It serves the everyday use of golang.org/x/time/rate, with the guarantee of package limit.
type Limiter struct {
	start time.Time

	mu    sync.Mutex // guards all below
	plan  *limit.Plan
	state limit.State
	taken int64 // until when later requests were admitted in advance, ns since start
}

// NewLimiter returns a Limiter, or an error that names the field of l at fault.
func NewLimiter(l Limit) (*Limiter, error) {
	plan, err := limit.New(l)
	if err != nil {
		return nil, &Error{Code: api.CodeInvalidLimit, Field: "limit", Message: err.Error()}
	}
	return &Limiter{start: time.Now(), plan: plan}, nil
}

// Allow admits one request now, if the limit lets it.
func (l *Limiter) Allow() bool { return l.Take(1).Allowed }

// AllowN admits n requests now, all or none.
func (l *Limiter) AllowN(n uint64) bool { return l.Take(n).Allowed }

// Take admits n requests now, all or none, and returns what is left and when to try again. A denied
// request uses nothing.
func (l *Limiter) Take(n uint64) Verdict { return l.decide(n, (*limit.Plan).Take) }

// Peek returns what Take would decide, and takes nothing.
func (l *Limiter) Peek(n uint64) Verdict { return l.decide(n, (*limit.Plan).Peek) }

// SetLimit changes the limit while it is in use. It grants no fresh allowance: earlier admissions
// count under the new limit too.
func (l *Limiter) SetLimit(to Limit) error {
	plan, err := limit.New(to)
	if err != nil {
		return &Error{Code: api.CodeInvalidLimit, Field: "limit", Message: err.Error()}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	plan.Adopt(&l.state, l.plan, max(l.now(), l.taken))
	l.plan = plan
	return nil
}

// Reserve admits n requests at the earliest time that the limit permits, and returns how long to
// wait. Later requests come after it, as in a queue. A reservation can't be given back. More than the
// burst is an error.
func (l *Limiter) Reserve(n uint64) (time.Duration, error) {
	return l.reserve(n, -1)
}

// Wait returns when a request is admitted, in the order of the calls. It fails at once, and takes
// nothing, if ctx would end before. If ctx is canceled while it waits, the admission is lost.
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN is Wait for n requests at once.
func (l *Limiter) WaitN(ctx context.Context, n uint64) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	most := time.Duration(-1)
	if deadline, ok := ctx.Deadline(); ok {
		most = max(0, time.Until(deadline))
	}
	wait, err := l.reserve(n, most)
	if err != nil || wait == 0 {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reserve is Reserve, unless the wait would be longer than most; below 0: any.
func (l *Limiter) reserve(n uint64, most time.Duration) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	from := max(now, l.taken)
	v := l.plan.Peek(&l.state, from, n)
	if v.Never {
		return 0, &Error{Code: api.CodeInvalidCount, Field: "n", Message: fmt.Sprintf("n of %d can never pass: the burst is %d", n, l.plan.Limit().Burst)}
	}
	at := from + int64(v.RetryAfter)
	wait := time.Duration(at - now)
	if most >= 0 && wait > most {
		return 0, fmt.Errorf("the limit lets this pass in %v: %w", wait, context.DeadlineExceeded)
	}
	l.plan.Take(&l.state, at, n)
	l.taken = at
	return wait, nil
}

// decide asks the plan, unless the time is taken by reservations.
func (l *Limiter) decide(n uint64, ask func(*limit.Plan, *limit.State, int64, uint64) Verdict) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if ahead := l.taken - now; ahead > 0 {
		v := l.plan.Peek(&l.state, l.taken, n)
		v.Allowed, v.Remaining = false, 0
		v.RetryAfter += time.Duration(ahead)
		v.Reset += time.Duration(ahead)
		return v
	}
	return ask(l.plan, &l.state, now, n)
}

func (l *Limiter) now() int64 { return int64(time.Since(l.start)) }
