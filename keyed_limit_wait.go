package weir

import (
	"context"
	"fmt"
	"time"
)

// Wait returns when a request of the key was admitted: it asks, and asks again when the limit would let it pass. Calls of
// one key are not in order, and one may wait longer than those that come after it. It fails at once if ctx would end
// before, and has taken nothing when it fails.
func (l *KeyedLimit) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN is Wait for n requests at once. More than the burst is an Error with CodeInvalidCount; others are those of Take.
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
			return &Error{CodeInvalidCount, "n", fmt.Sprintf("n of %d can never pass: the burst is %d", n, l.Limit().Burst)}
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
