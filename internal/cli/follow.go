package cli

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
)

// Pauses between attempts.
const (
	minPause = 250 * time.Millisecond
	maxPause = 4 * time.Second
)

// follow calls stream until ctx ends, and again whenever it ends, unless the same question would have the same answer. It
// reports each error to lost. stream calls arrived for each view.
func follow(ctx context.Context, stream func(arrived func()) error, lost func(error)) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := stream(func() { pause = minPause })
		if ctx.Err() != nil {
			return
		}
		lost(err)
		if final(err) {
			return
		}
		timer := time.NewTimer(pause - time.Duration(rand.Int64N(int64(pause/4))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// final reports whether a repeated question would have the same answer.
func final(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Status < http.StatusInternalServerError && refused.Status != http.StatusTooManyRequests
}

// MaxWatched is the number of keys that Parts takes.
const MaxWatched = 8

// Part is the hits of a key in one interval that is over.
type Part struct {
	Key   string
	End   time.Time
	Step  time.Duration
	Count api.Bounds
}

// Parts gives the intervals of keys as they end, from the newest on, until ctx ends or a server refuses. For a window of a
// minute an interval is a second. Each is given once: a view that was missed is made up for by the next one. watchKey is
// client.Client.WatchKey.
func Parts(ctx context.Context, watchKey func(ctx context.Context, key string, window time.Duration, each func(api.KeyAnswer)) error, keys []string, window time.Duration, each func(Part)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex // each is called by one goroutine at a time
	var running sync.WaitGroup
	seen := false
	for _, key := range keys {
		newest := int64(0)
		running.Go(func() {
			follow(ctx, func(arrived func()) error {
				return watchKey(ctx, key, window, func(view api.KeyAnswer) {
					arrived()
					mu.Lock()
					defer mu.Unlock()
					seen = true
					if ctx.Err() == nil {
						newest = ended(view, newest, each)
					}
				})
			}, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if !seen || final(err) {
					stop(err)
				}
			})
		})
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// ended gives the intervals of a view that ended after a second (0: only the last one), and returns when the last one ended.
func ended(view api.KeyAnswer, after int64, each func(Part)) int64 {
	line := view.Line
	for i := range line.Estimate {
		end := line.From.Unix() + int64(i+1)*line.StepSeconds
		if end >= line.To.Unix() { // it is not over
			break
		}
		if next := end + line.StepSeconds; end <= after || after == 0 && next < line.To.Unix() {
			continue
		}
		estimate := line.Estimate[i]
		b := api.Bounds{Lower: estimate, Estimate: estimate, Upper: &estimate, Exact: true}
		if line.Lower != nil && line.Upper != nil {
			b = api.Bounds{Lower: line.Lower[i], Estimate: estimate, Upper: line.Upper[i], Exact: line.Upper[i] != nil && line.Lower[i] == *line.Upper[i]}
		}
		each(Part{Key: view.Key, End: time.Unix(end, 0), Step: time.Duration(line.StepSeconds) * time.Second, Count: b})
		after = end
	}
	return after
}
