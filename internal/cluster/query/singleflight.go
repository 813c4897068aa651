package query

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
)

const (
	// maxRemembered and maxRememberedBytes bound the answers that are kept for equal questions. The oldest leave first.
	maxRemembered, maxRememberedBytes = 16 << 10, 32 << 20

	// maxAsking is how many questions may wait for other nodes: some 60 MiB, or 160 MiB with the longest keys.
	maxAsking = 64 << 10
)

// flight is one question that other nodes answer for all its askers, and then its answer. Until done is closed it belongs to
// Router.retry.
type flight struct {
	q    question
	id   string // in singleflight; "": not shared
	done chan struct{}

	mu     sync.Mutex // while nodes are asked, guards the fields up to err
	asking int        // nodes
	given  bool       // answer has a result
	answer answer
	fresh  api.Freshness
	rest   replication.PartitionSet            // of a wide question: not answered yet
	failed map[string]replication.PartitionSet // by node that failed in this round: what it may still be asked
	trail  []step
	err    error

	empty bool      // there was no node to ask in the previous round
	until time.Time // guarded by singleflight.mu: when the answer is too old
	size  int
}

// wait blocks until the answer, or until ctx ends.
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

// singleflight gives equal questions one flight, until a flush interval after its answer.
type singleflight struct {
	keep     time.Duration
	most     int // questions that wait
	asking   atomic.Int64
	joined   atomic.Uint64
	repeated atomic.Uint64
	refused  atomic.Uint64

	// deletions counts the deletions of keys with one hash, and all counts all, for lists. They are part of a question's id,
	// so that an answer from before a deletion is not reused.
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

// idOf appends what is equal for equal questions.
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

// forget stops the reuse of answers that a key's deletion has changed.
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

// begin returns a new flight, or the flight of an equal question that came meanwhile.
func (s *singleflight) begin(q *question) (f *flight, isNew bool, err error) {
	id := s.idOf(nil, q)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.findLocked(id); f != nil {
		return f, false, nil
	}
	if f, err = s.unshared(*q); err != nil {
		return nil, false, err
	}
	f.id = string(id)
	s.flights[f.id] = f
	return f, true, nil
}

// unshared returns a flight that no other question shares.
func (s *singleflight) unshared(q question) (*flight, error) {
	if s.asking.Add(1) > int64(s.most) {
		s.asking.Add(-1)
		s.refused.Add(1)
		return nil, errTooMany
	}
	return &flight{q: q, done: make(chan struct{})}, nil
}

var errTooMany = &engine.Error{Code: api.CodeOverloaded, Message: "too many queries are waiting for other nodes: retry in a second"}

// finish wakes the callers. The flight has its answer or its error.
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

func (s *singleflight) drop() {
	f := s.answered[0]
	s.answered[0] = nil
	s.answered = s.answered[1:]
	s.bytes -= f.size
	if s.flights[f.id] == f { // no newer one
		delete(s.flights, f.id)
	}
}

// sweep forgets what is too old, and starts the timer again while answers are left.
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

// memory is about how many bytes a flight takes with its answer.
func (f *flight) memory() int {
	const fixed = 700
	return fixed + 2*len(f.id) + 40*len(f.fresh.Late) + f.answer.result.memory()
}
