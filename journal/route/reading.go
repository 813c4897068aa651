package route

import (
	"context"
	"time"

	"github.com/weir-counter/weir"
)

// Reading asks questions that are answered only by nodes that have applied the journal
// up to a message.
type Reading struct {
	*Router
	upTo uint64 // 0: as far as they are
}

// After is for questions whose answers must have all up to a message of the journal,
// which this node has applied (journal.Journal.Fresh). Where no holder has it in time,
// the error is CodeNotFresh.
func (r *Router) After(upTo uint64) Reading { return Reading{r, upTo} }

// Counts is that of a Reading after anything.
func (r *Router) Counts(ctx context.Context, questions []CountQuestion) ([]weir.Count, Fresh, error) {
	return r.After(0).Counts(ctx, questions)
}

// Series is that of a Reading after anything.
func (r *Router) Series(ctx context.Context, key string, from, to time.Time, step time.Duration) ([]weir.Point, Fresh, error) {
	return r.After(0).Series(ctx, key, from, to, step)
}

// Top is that of a Reading after anything.
func (r *Router) Top(ctx context.Context, at time.Time, w time.Duration, n int, prefix string) ([]weir.KeyCount, Fresh, error) {
	return r.After(0).Top(ctx, at, w, n, prefix)
}

// Keys is that of a Reading after anything.
func (r *Router) Keys(ctx context.Context, prefix, after string, limit int) ([]string, Fresh, error) {
	return r.After(0).Keys(ctx, prefix, after, limit)
}
