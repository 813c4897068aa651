package stream

import (
	"context"
	"time"
)

// AwaitApplied returns the last sequence of the journal once it is what is known to
// have been acknowledged, or after a while what it is. Among many nodes a leader
// that has just been elected says less for a moment: it has the message, and has
// not yet applied it to the stream.
func (s *Store) AwaitApplied(ctx context.Context, last, known uint64) (uint64, error) {
	for end := time.Now().Add(patience); last < known && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-time.After(retryEvery):
		}
		var err error
		if _, last, _, err = s.Bounds(ctx); err != nil {
			return last, err
		}
	}
	return last, nil
}
