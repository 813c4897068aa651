package dashboard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
)

// All pages that look at the same share one computation: a topic is computed again and again while somebody watches it,
// and every watcher gets the newest document.
//
// Invariants. A topic has one goroutine, which ends with its last watcher. Nothing waits for a watcher: one that is
// slow misses documents in between, and gets the newest. All topics together take about one part in costShare of a
// core, however long their computations last, up to maxWait.

const (
	// every is how long a topic rests at least between computations.
	every = time.Second
	// costShare: topics rest for so many times what a computation took, times their number.
	costShare = 20
	// maxWait is how long a topic rests at most.
	maxWait = 30 * time.Second
	// MaxTopics bounds what is computed for different pages at the same time.
	MaxTopics = 256
	// MaxOwn is the share of one client: how many topics it may watch at the same time. The rest is for others.
	MaxOwn = MaxTopics - MaxTopics/4
)

var (
	// ErrFull answers the client of a topic beyond MaxTopics.
	ErrFull = &api.Error{Code: api.CodeOverloaded, Message: fmt.Sprintf("%d different views are open: close some, or look at one that is open", MaxTopics)}
	// ErrShare answers a client that watches MaxOwn topics, and another one.
	ErrShare = &api.Error{Code: api.CodeOverloaded, Message: fmt.Sprintf("you look at %d different views, your share: close some, so that others can look too", MaxOwn)}
	// ErrClosed answers a client of a Board that was closed.
	ErrClosed = &api.Error{Code: api.CodeStopping, Message: "this server is stopping: use another"}
)

// Board has the topics that somebody watches. The zero Board is ready; it is safe for many goroutines.
type Board struct {
	mu      sync.Mutex
	topics  map[string]*topic         // with at least one watcher each
	own     map[string]map[*topic]int // of each client that watches: how often it watches which topics
	closed  bool
	running sync.WaitGroup
}

// Asker is who watches a topic.
type Asker struct {
	// Client is whose share of the topics it counts towards.
	Client string
	// May says why the watcher may not look any more; nil: it may. It is called for each document.
	May func() error
	// Ask computes the document, for all that watch the topic. It is called on behalf of one of them, one that May.
	Ask func(context.Context) ([]byte, error)
}

// Watch begins to watch a topic. Askers of one topic must compute the same. Close must follow if there was no error.
func (b *Board) Watch(name string, as Asker) (*Watch, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	t := b.topics[name]
	own := b.own[as.Client]
	if own[t] == 0 && len(own) >= MaxOwn {
		return nil, ErrShare
	}
	if t == nil {
		if len(b.topics) >= MaxTopics {
			return nil, ErrFull
		}
		t = &topic{name: name, watchers: map[*Watch]bool{}, changed: make(chan struct{})}
	}
	b.count(as.Client, t)
	w := &Watch{board: b, topic: t, as: as}
	t.mu.Lock()
	t.watchers[w] = true
	t.mu.Unlock()
	if b.topics[name] != t {
		b.begin(t)
	}
	return w, nil
}

// begin adds a topic that somebody watches, and its goroutine, which end when the last watcher leaves.
func (b *Board) begin(t *topic) {
	var ctx context.Context
	ctx, t.end = context.WithCancel(context.Background())
	if b.topics == nil {
		b.topics = map[string]*topic{}
	}
	b.topics[t.name] = t
	b.running.Go(func() { t.run(ctx, b) })
}

// count notes that a client watches a topic, once more. The caller holds mu.
func (b *Board) count(client string, t *topic) {
	if b.own == nil {
		b.own = map[string]map[*topic]int{}
	}
	if b.own[client] == nil {
		b.own[client] = map[*topic]int{}
	}
	b.own[client][t]++
}

// discount is the inverse of count. The caller holds mu.
func (b *Board) discount(client string, t *topic) {
	own := b.own[client]
	if own[t]--; own[t] == 0 {
		delete(own, t)
	}
	if len(own) == 0 {
		delete(b.own, client)
	}
}

// leave takes a watcher away, and with the last one its topic.
func (b *Board) leave(w *Watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := w.topic
	b.discount(w.as.Client, t)
	t.mu.Lock()
	delete(t.watchers, w)
	last := len(t.watchers) == 0
	t.mu.Unlock()
	if last && b.topics[t.name] == t {
		t.end()
		delete(b.topics, t.name)
	}
}

// Topics is how many are watched now.
func (b *Board) Topics() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.topics)
}

// Close ends all topics, and returns when their goroutines have ended. Watchers get ErrClosed.
func (b *Board) Close() {
	b.mu.Lock()
	b.closed = true
	for _, t := range b.topics {
		t.end()
	}
	b.mu.Unlock()
	b.running.Wait()
}

// rest is how long a topic waits after a computation that took so long, among so many topics.
func rest(took time.Duration, topics int) time.Duration {
	return min(max(every, took*costShare*time.Duration(max(topics, 1))), maxWait)
}

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

// Next waits for a document that is newer than the last one that it gave, and gives the newest. It gives an error of a
// computation in place of a document, once, and the next document may follow. None will follow after last: the watcher
// may not look any more, the Board was closed, or ctx ended.
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
