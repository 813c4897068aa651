package board

import (
	"context"
	"errors"
	"sync"
	"time"
)

// topic is one document that is computed again and again.
type topic struct {
	name string
	end  context.CancelFunc

	mu       sync.Mutex
	watchers map[*Watch]bool
	document []byte        // the newest
	err      error         // in place of it
	number   uint64        // of what is the newest, from 1; 0: there is none yet
	changed  chan struct{} // closed at the next one
}

// run computes until ctx ends.
func (t *topic) run(ctx context.Context, b *Board) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			t.publish(nil, ErrClosed)
			return
		}
		began := time.Now()
		document, err := t.compute(ctx)
		if ctx.Err() == nil {
			t.publish(document, err)
		}
		timer.Reset(rest(time.Since(began), b.Topics()))
	}
}

// compute asks on behalf of a watcher that may.
func (t *topic) compute(ctx context.Context) (document []byte, err error) {
	for _, w := range t.all() {
		if err = w.as.May(); err == nil {
			return w.as.Ask(ctx)
		}
	}
	return nil, err
}

func (t *topic) all() (list []*Watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for w := range t.watchers {
		list = append(list, w)
	}
	return list
}

func (t *topic) publish(document []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.document, t.err = document, err
	t.number++
	close(t.changed)
	t.changed = make(chan struct{})
}

// Watch is one that looks at a topic. It is for one goroutine.
type Watch struct {
	board *Board
	topic *topic
	as    Asker
	seen  uint64 // the number of the last document that Next gave
}

// Next waits for a document that is newer than the last one that it gave, and gives the
// newest. An error of a computation is given in its place, once, and the next document may follow;
// last says that none will: the watcher may not look any more, the Board was closed, or ctx ended.
func (w *Watch) Next(ctx context.Context) (document []byte, last bool, err error) {
	t := w.topic
	for {
		t.mu.Lock()
		document, err, number, changed := t.document, t.err, t.number, t.changed
		t.mu.Unlock()
		if number > w.seen {
			w.seen = number
			if may := w.as.May(); may != nil {
				return nil, true, may
			}
			return document, errors.Is(err, ErrClosed), err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, true, context.Cause(ctx)
		}
	}
}

// Close ends the watch.
func (w *Watch) Close() { w.board.leave(w) }
