package route

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
)

const (
	// maxKept and maxKeptBytes bound the answers that are kept for equal questions:
	// those of one flush interval, the oldest leave first.
	maxKept, maxKeptBytes = 16 << 10, 32 << 20

	// maxAsking is how many questions may be under way: some 60 MiB, or 160 MiB if
	// all keys are of the longest.
	maxAsking = 64 << 10
)

// flight is one question on its way to other nodes, for all who ask it, and then its
// answer. Until done is closed it belongs to the goroutine that pursues it.
type flight struct {
	q    question
	id   string // in sharing; "": not shared
	done chan struct{}

	answer answer
	fresh  Fresh
	err    error

	asked []string // nodes that were asked in this round
	trail trail    // all that were asked
	empty bool     // the round before found nobody to ask

	until time.Time // guarded by sharing.mu: when the answer is too old
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

// sharing gives equal questions one flight: while it is under way, and for a flush
// interval after its answer came.
type sharing struct {
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

	mu      sync.Mutex
	flights map[string]*flight
	kept    []*flight // with their answers, the oldest first
	bytes   int       // of those
	sweeper *time.Timer
	closed  bool
}

func newSharing(keep time.Duration) *sharing {
	return &sharing{keep: keep, most: maxAsking, seed: maphash.MakeSeed(), flights: map[string]*flight{}}
}

// idOf appends what is equal for equal questions. Sets are not asked for by anybody.
func (s *sharing) idOf(b []byte, q *question) []byte {
	switch {
	case q.kind == kindTop || q.kind == kindKeys || q.kind == kindLimitKeys:
		b = binary.LittleEndian.AppendUint64(b, s.all.Load())
	case q.key == weir.AllKeys: // deletions change nothing
		b = binary.LittleEndian.AppendUint64(b, 0)
	default:
		b = binary.LittleEndian.AppendUint64(b, s.deletionsOf(q.key).Load())
	}
	return q.append(b)
}

func (s *sharing) deletionsOf(key string) *atomic.Uint64 {
	return &s.deletions[maphash.String(s.seed, key)%uint64(len(s.deletions))]
}

// forget makes answers that a key's deletion has changed be asked for again.
func (s *sharing) forget(key string) {
	s.deletionsOf(key).Add(1)
	s.all.Add(1)
}

// find returns the flight of an equal question, nil if there is none. q may be invalid.
func (s *sharing) find(q *question) *flight {
	if q.window%time.Second != 0 { // it would pass for another
		return nil
	}
	var buf [256]byte
	id := s.idOf(buf[:0], q)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(id)
}

func (s *sharing) findLocked(id []byte) *flight {
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
func (s *sharing) begin(q *question) (f *flight, isNew bool, err error) {
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
func (s *sharing) alone(q question) (*flight, error) {
	if s.asking.Add(1) > int64(s.most) {
		s.asking.Add(-1)
		s.refused.Add(1)
		return nil, errTooMany
	}
	return &flight{q: q, done: make(chan struct{})}, nil
}

var errTooMany = &weir.Error{Code: weir.CodeOverloaded, Message: "too many questions wait for other nodes: retry in a second"}

// finish tells everybody. The flight has its answer or its error.
func (s *sharing) finish(f *flight) {
	s.asking.Add(-1)
	if f.id != "" {
		s.settle(f)
	}
	close(f.done)
}

// settle keeps an answer, and forgets an error.
func (s *sharing) settle(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.err != nil || s.closed {
		delete(s.flights, f.id)
		return
	}
	f.until, f.size = time.Now().Add(s.keep), f.memory()
	s.kept = append(s.kept, f)
	s.bytes += f.size
	for len(s.kept) > maxKept || s.bytes > maxKeptBytes {
		s.drop()
	}
	if s.sweeper == nil {
		s.sweeper = time.AfterFunc(s.keep, s.sweep)
	}
}

// drop forgets the oldest answer.
func (s *sharing) drop() {
	f := s.kept[0]
	s.kept[0] = nil
	s.kept = s.kept[1:]
	s.bytes -= f.size
	if s.flights[f.id] == f { // no newer one
		delete(s.flights, f.id)
	}
}

// sweep forgets what is too old, and comes again while there is something.
func (s *sharing) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.kept) > 0 && !now.Before(s.kept[0].until) {
		s.drop()
	}
	s.sweeper = nil
	if len(s.kept) > 0 && !s.closed {
		s.sweeper = time.AfterFunc(s.kept[0].until.Sub(now), s.sweep)
	}
}

func (s *sharing) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for len(s.kept) > 0 {
		s.drop()
	}
	if s.sweeper != nil {
		s.sweeper.Stop()
	}
}

// memory is about what a flight with its answer takes.
func (f *flight) memory() int {
	const fixed = 700
	n := fixed + 2*len(f.id) + 24*len(f.answer.points) + 40*len(f.fresh.Late)
	for _, kc := range f.answer.top {
		n += 40 + len(kc.Key)
	}
	for _, key := range f.answer.keys {
		n += 16 + len(key)
	}
	for _, u := range f.answer.uses {
		n += 80 + len(u.Key)
	}
	return n
}
