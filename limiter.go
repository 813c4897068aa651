package weir

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
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

// Reserve admits n requests at the earliest time that the limit permits, and returns how long to wait. Later requests
// come after it, as in a queue. A reservation can't be given back. More than the burst is an error.
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

// KeyedLimit is a limit of an Engine that each key has for itself, such as 10 per second for each
// user. Engine.Limit makes it. It is safe for many goroutines.
type KeyedLimit engine.KeyedLimit

func (l *KeyedLimit) inner() *engine.KeyedLimit { return (*engine.KeyedLimit)(l) }

// Name returns the name of the limit.
func (l *KeyedLimit) Name() string { return l.inner().Name() }

// Limit returns what each key may do, with the burst filled in.
func (l *KeyedLimit) Limit() Limit { return l.inner().Limit() }

// SetLimit changes the limit of all keys while it is in use. It grants no fresh allowance: earlier
// admissions count under the new limit too.
func (l *KeyedLimit) SetLimit(to Limit) error { return l.inner().SetLimit(to) }

// Release says that the limit is no longer used. When no key uses it, another name may take its
// place: an engine has at most 10,000 names.
func (l *KeyedLimit) Release() { l.inner().Release() }

// Allow admits one request of the key now, if its limit permits it. It is also false for a key that
// no limit can be kept for: Take returns why.
//
// Cost: a look-up under the lock of the key's partition; O(1). It allocates only for a key whose limit was not in use.
func (l *KeyedLimit) Allow(key string) bool { return l.inner().AllowN(key, 1) }

// AllowN admits n requests of the key now, all or none.
func (l *KeyedLimit) AllowN(key string, n uint64) bool { return l.inner().AllowN(key, n) }

// Take admits n requests of the key now, all or none, and returns what is left and when to try
// again. A denied request uses nothing. The error is an Error with api.CodeInvalidKey, or
// api.CodeOverloaded if LimitMemory is full of limits in use.
func (l *KeyedLimit) Take(key string, n uint64) (Verdict, error) { return l.inner().Take(key, n) }

// Peek returns what Take would decide, and takes nothing. It needs no memory.
func (l *KeyedLimit) Peek(key string, n uint64) (Verdict, error) { return l.inner().Peek(key, n) }

// Wait returns when a request of the key is admitted. Calls of one key are not in order. Wait fails
// at once if ctx would end before, and takes nothing if it fails.
func (l *KeyedLimit) Wait(ctx context.Context, key string) error { return l.inner().WaitN(ctx, key, 1) }

// WaitN is Wait for n requests at once. More than the burst is an Error with api.CodeInvalidCount.
func (l *KeyedLimit) WaitN(ctx context.Context, key string, n uint64) error {
	return l.inner().WaitN(ctx, key, n)
}

// Refund gives back up to n admissions that the key took at one time of day, or with the zero Time the newest ones. It
// returns how many more are free now: fewer than n if some have left the window, or the bucket has filled since.
func (l *KeyedLimit) Refund(key string, n uint64, taken time.Time) (free uint64, err error) {
	return l.inner().Refund(key, n, taken)
}

// Reset forgets what the key has used of all limits of the name: it has its whole burst again. It
// reports whether there was something.
func (l *KeyedLimit) Reset(key string) (was bool, err error) { return l.inner().Reset(key) }

// Reserve is Take of n admissions; Settle says later how many were used. The same ID again, for the
// same key, takes nothing more; with another Content or n it fails with api.CodeKeyReused.
func (l *KeyedLimit) Reserve(key string, n uint64, r Reservation) (Verdict, error) {
	return l.inner().Reserve(key, n, r)
}

// Settle says how many of a reservation's admissions were used; the rest is given back, as by Refund.
// With debt, use beyond the reservation always counts. Without, it counts only if the limit has all
// of it left. Settle returns how many count as used, and a repetition returns the same. A reservation
// that does not exist, or whose time is over, is not known.
func (l *KeyedLimit) Settle(key, id string, used uint64, debt bool) (counted uint64, known bool, err error) {
	done, err := l.inner().Settle(key, id, used, debt)
	return done.Used, done.Known, err
}

// Keys returns the keys that have used most of the limit, by their share of the burst; a key at 1 is
// denied now. Cost: O(keys with limits in use), one partition at a time.
func (l *KeyedLimit) Keys(most int) []KeyUse { return l.inner().Keys(most) }
