package query

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
)

// scatter is a question about all keys, on its way.
type scatter struct {
	f    *flight
	rest replication.PartitionSet            // not answered yet
	of   map[string]replication.PartitionSet // what nodes may still be asked in this round: those that failed
	mu   sync.Mutex                          // while subqueries are asked, guards f's answer and trail, rest and of
}

// scatterGather puts a question to nodes that together hold all partitions, plans again for
// the sets of those that fail, and adds up what they say.
func (r *Router) scatterGather(ctx context.Context, f *flight) {
	c := &scatter{f: f, rest: all(r.partitions), of: map[string]replication.PartitionSet{}}
	for {
		subqueries, left := r.plan(c.rest, c.of)
		r.askSubqueries(ctx, c, subqueries)
		switch {
		case f.answer.err != nil, c.rest.Len() == 0:
			r.finish(f, f.answer, f.fresh)
			return
		case ctx.Err() != nil:
			r.abandon(f, f.trail.failed(first(c.rest)))
			return
		case left.Len() == 0:
			continue // other nodes may have what the failed ones had
		}
		// Some partitions have nobody left in this round.
		nobody := len(subqueries) == 0 && len(c.of) == 0
		if nobody && f.empty || !sleep(ctx, pause) {
			r.abandon(f, f.trail.failed(first(left)))
			return
		}
		f.empty = nobody
		clear(c.of)
	}
}

// askSubqueries asks the nodes of a plan at the same time.
func (r *Router) askSubqueries(ctx context.Context, c *scatter, subqueries []subquery) {
	var asking sync.WaitGroup
	for _, l := range subqueries {
		asking.Go(func() {
			q := c.f.q // subqueries differ in their sets
			q.in = l.in
			if l.node == "" {
				fresh := r.own()
				c.add(&q, "", answerOf(r.engine, &q), fresh, nil)
				return
			}
			each, ok := r.askNode(ctx, l.node, q.class(), []*question{&q})
			if !ok {
				c.out(l.node)
				return
			}
			c.add(&q, l.node, each[0].answer, each[0].fresh, each[0].err)
		})
	}
	asking.Wait()
}

// add takes what a node said about its set, or why it said nothing.
func (c *scatter) add(q *question, node string, a answer, fresh api.Freshness, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && a.notHeld():
		if node != "" {
			c.f.trail.add(node, errNotAll)
			c.of[node] = a.held
		}
	case err == nil && a.elsewhere():
		err = a.err
	case err == nil && a.err != nil:
		c.f.answer.err = a.err
	case err == nil:
		c.rest = without(c.rest, q.in)
		c.f.fresh = joined(c.f.fresh, fresh)
		if c.f.answer.result == nil {
			c.f.answer.result = a.result
		} else { // of partitions that have no key in common
			c.f.answer.result = c.f.answer.result.merge(q.kind, a.result)
		}
	}
	if err != nil {
		c.f.trail.add(node, err)
		c.of[node] = make(replication.PartitionSet, len(c.rest)) // of nothing
	}
}

// out notes that the time was over before a node answered.
func (c *scatter) out(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.f.trail.out(node)
}

var errNotAll = errors.New("it does not hold all of the partitions")

const (
	// maxRemembered and maxRememberedBytes bound the answers that are kept for equal questions:
	// those of one flush interval, the oldest leave first.
	maxRemembered, maxRememberedBytes = 16 << 10, 32 << 20

	// maxAsking is how many questions may be under way: some 60 MiB, or 160 MiB if
	// all keys are of the longest.
	maxAsking = 64 << 10
)

// flight is one question on its way to other nodes, for all who ask it, and then its
// answer. Until done is closed it belongs to the goroutine that runs retryHolders or scatterGather for it.
type flight struct {
	q    question
	id   string // in singleflight; "": not shared
	done chan struct{}

	answer answer
	fresh  api.Freshness
	err    error

	asked []string // nodes that were asked in this round
	trail trail    // all that were asked
	empty bool     // the round before found nobody to ask

	until time.Time // guarded by singleflight.mu: when the answer is too old
	size  int
}

// wait waits for the answer, at most as long as ctx.
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	default:
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// singleflight gives equal questions one flight: while it is under way, and for a flush
// interval after its answer came.
type singleflight struct {
	keep     time.Duration
	most     int // questions under way
	asking   atomic.Int64
	joined   atomic.Uint64
	repeated atomic.Uint64
	refused  atomic.Uint64

	// deletions counts those of keys with one hash; of lists, all. It is part of a
	// question's id, so that what was asked before a deletion is not asked again.
	seed      maphash.Seed
	deletions [256]atomic.Uint64
	all       atomic.Uint64

	mu       sync.Mutex
	flights  map[string]*flight
	answered []*flight // with their answers, the oldest first
	bytes    int       // of those
	sweeper  *time.Timer
	closed   bool
}

func newSingleflight(keep time.Duration) *singleflight {
	return &singleflight{keep: keep, most: maxAsking, seed: maphash.MakeSeed(), flights: map[string]*flight{}}
}

// idOf appends what is equal for equal questions. Sets are not asked for by anybody.
func (s *singleflight) idOf(b []byte, q *question) []byte {
	switch key := q.keyed(); key {
	case "": // a list
		b = binary.LittleEndian.AppendUint64(b, s.all.Load())
	case engine.AllKeys: // deletions change nothing
		b = binary.LittleEndian.AppendUint64(b, 0)
	default:
		b = binary.LittleEndian.AppendUint64(b, s.deletionsOf(key).Load())
	}
	return q.append(b)
}

func (s *singleflight) deletionsOf(key string) *atomic.Uint64 {
	return &s.deletions[maphash.String(s.seed, key)%uint64(len(s.deletions))]
}

// forget makes answers that a key's deletion has changed be asked for again.
func (s *singleflight) forget(key string) {
	s.deletionsOf(key).Add(1)
	s.all.Add(1)
}

// find returns the flight of an equal question, nil if there is none. q may be invalid.
func (s *singleflight) find(q *question) *flight {
	if !q.exact() { // it would pass for another
		return nil
	}
	buf := ids.Get().(*[]byte)
	defer ids.Put(buf)
	*buf = s.idOf((*buf)[:0], q)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(*buf)
}

// ids has buffers for what find looks up.
var ids = sync.Pool{New: func() any { return new([]byte) }}

func (s *singleflight) findLocked(id []byte) *flight {
	f := s.flights[string(id)]
	switch {
	case f == nil:
		return nil
	case f.until.IsZero():
		s.joined.Add(1)
	case time.Now().Before(f.until):
		s.repeated.Add(1)
	default:
		return nil
	}
	return f
}

// begin returns a new flight, or that of an equal question that came meanwhile.
func (s *singleflight) begin(q *question) (f *flight, isNew bool, err error) {
	id := s.idOf(nil, q)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.findLocked(id); f != nil {
		return f, false, nil
	}
	if f, err = s.alone(*q); err != nil {
		return nil, false, err
	}
	f.id = string(id)
	s.flights[f.id] = f
	return f, true, nil
}

// alone returns a flight that is nobody else's.
func (s *singleflight) alone(q question) (*flight, error) {
	if s.asking.Add(1) > int64(s.most) {
		s.asking.Add(-1)
		s.refused.Add(1)
		return nil, errTooMany
	}
	return &flight{q: q, done: make(chan struct{})}, nil
}

var errTooMany = &engine.Error{Code: engine.CodeOverloaded, Message: "too many questions wait for other nodes: retry in a second"}

// finish tells everybody. The flight has its answer or its error.
func (s *singleflight) finish(f *flight) {
	s.asking.Add(-1)
	if f.id != "" {
		s.remember(f)
	}
	close(f.done)
}

// remember keeps an answer, and forgets an error.
func (s *singleflight) remember(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.err != nil || s.closed {
		delete(s.flights, f.id)
		return
	}
	f.until, f.size = time.Now().Add(s.keep), f.memory()
	s.answered = append(s.answered, f)
	s.bytes += f.size
	for len(s.answered) > maxRemembered || s.bytes > maxRememberedBytes {
		s.drop()
	}
	if s.sweeper == nil {
		s.sweeper = time.AfterFunc(s.keep, s.sweep)
	}
}

// drop forgets the oldest answer.
func (s *singleflight) drop() {
	f := s.answered[0]
	s.answered[0] = nil
	s.answered = s.answered[1:]
	s.bytes -= f.size
	if s.flights[f.id] == f { // no newer one
		delete(s.flights, f.id)
	}
}

// sweep forgets what is too old, and comes again while there is something.
func (s *singleflight) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.answered) > 0 && !now.Before(s.answered[0].until) {
		s.drop()
	}
	s.sweeper = nil
	if len(s.answered) > 0 && !s.closed {
		s.sweeper = time.AfterFunc(s.answered[0].until.Sub(now), s.sweep)
	}
}

func (s *singleflight) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for len(s.answered) > 0 {
		s.drop()
	}
	if s.sweeper != nil {
		s.sweeper.Stop()
	}
}

// memory is about what a flight with its answer takes.
func (f *flight) memory() int {
	const fixed = 700
	n := fixed + 2*len(f.id) + 40*len(f.fresh.Late)
	if f.answer.result != nil {
		n += f.answer.result.memory()
	}
	return n
}
