package client

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/api"
)

// batch is lines that are sent together, under one idempotency key. Its body is the same in every
// attempt.
type batch struct {
	epoch    uint64 // when its lines were taken from the table
	lines    []sumLine
	key      string
	attempts int
	doubtful time.Time // when an attempt first got no answer; zero: none did
}

func newBatch(epoch uint64, lines []sumLine) *batch {
	return &batch{epoch: epoch, lines: lines, key: rand.Text()}
}

// body writes the lines into a buffer.
func (b *batch) body(to []byte) []byte {
	for i := range b.lines {
		l := &b.lines[i]
		to = appendHit(to, Hit{l.Key, l.N, time.Unix(l.Second, 0)})
	}
	return to
}

func (b *batch) hits() uint64 { return hitsOf(b.lines) }

func hitsOf(lines []sumLine) (n uint64) {
	for i := range lines {
		n += lines[i].N
	}
	return n
}

// cutLines cuts lines into batches that servers take by default.
func cutLines(epoch uint64, lines []sumLine) (list []*batch) {
	for len(lines) > 0 {
		n, bytes := 0, 0
		for n < len(lines) && n < maxLines && bytes < maxBody {
			bytes += len(lines[n].Key) + 64 // names, numbers
			n++
		}
		list = append(list, newBatch(epoch, lines[:n:n]))
		lines = lines[n:]
	}
	return list
}

// outcome is what an attempt to send a batch came to.
type outcome struct {
	settled bool // these lines are done: answer says how
	answer  api.HitsAnswer
	rest    []sumLine // beside them: to be sent as batches of their own, for the server took none of them
	again   bool      // nothing of it was counted by this attempt: any node may be sent it
	err     error     // for Notify; nil: all is well
	refused *Error    // with the pause that the server asks for
	closing bool      // the attempt began after Close
}

// judge says what the end of an attempt means. Neither settled nor again, the batch is in doubt.
func (b *batch) judge(text []byte, err error) (o outcome) {
	o.err = err
	switch {
	case err == nil:
		if o.err = decode(text, &o.answer); o.err != nil {
			return o // something else than a Weir server, which may stand before one
		}
	case neverSent(err):
		o.again = true
		return o
	case !asError(err, &o.refused):
		return o
	case o.refused.tooLarge() && len(b.lines) > 1:
		o.rest, o.err = b.lines, nil
		return o
	case !o.refused.tookNothing():
		return o
	default:
		if o.refused.temporary() || decode(text, &o.answer) != nil || !o.refused.final(&o.answer) {
			o.again = true
			return o
		}
	}
	o.settled = true
	if from := o.answer.RetryFrom; from > 1 && from <= len(b.lines) {
		o.rest = b.lines[from-1:]
		o.refused = &Error{Code: api.CodeOverloaded, After: time.Second}
	}
	return o
}

// tooLarge tells whether the server takes smaller batches, and counted none of this one.
func (e *Error) tooLarge() bool {
	return e.Code == api.CodeTooManyLines || e.Code == api.CodeBodyTooLarge
}

// final tells whether the refusal is about what the hits are, so that no further attempt
// ends otherwise. Who may send hits, and what a server is set to, may change.
func (e *Error) final(a *api.HitsAnswer) bool {
	switch e.Code {
	case api.CodeNothingCounted, api.CodeTooLate, api.CodeTooManyLines, api.CodeBodyTooLarge, api.CodeInvalidKey:
		return true
	}
	return a.RejectedLines > 0
}

// This part adds up hits by key and second until they are taken, within a bound of lines
// and bytes. It has no clock and no goroutine.

// What a server takes as one hit.
const (
	maxSumKeyBytes = 512
	MaxHits        = 1 << 40
)

// sumLineBytes is what a line takes at most beside the bytes of its key: the line itself, its place in the
// table, and what both have to spare.
const sumLineBytes = 320

// The errors of Add, beside those of hits that no server would count.
var (
	errSumsFull   = errors.New("the bound of hits that wait is reached: this hit was not taken")
	errSumsClosed = errors.New("the sender is closed: this hit was not taken")
)

// A Line is the hits of a key in one second.
type sumLine struct {
	Key    string
	Second int64 // Unix
	N      uint64
}

// Bytes is what the line counts for in the bound.
func (l *sumLine) Bytes() int64 { return int64(len(l.Key)) + sumLineBytes }

// sumTable is hits that were added and not yet taken. It may be used by many goroutines at once.
//
// Lines that were taken still count for its bound, until they are released: whoever took them
// has them in memory.
type sumTable struct {
	maxLines, maxBytes int64
	lines, bytes       atomic.Int64 // within the bound, or on the way back from beyond it
	half               func()       // is told of each line beyond a half of the bound

	seed   maphash.Seed
	shards [64]shard
}

// shard is the lines of a share of the keys. A hit costs a hash, a lock that few others want and a
// look-up.
type shard struct {
	mu      sync.Mutex
	closed  bool
	held    held
	taken   uint64 // hits, ever
	refused uint64 // hits, for want of room
	spare   held   // empty, the next held; of the goroutine that takes
	_       [32]byte
}

// held is lines, and the place of each.
type held struct {
	places map[place]int32
	lines  []sumLine
}

type place struct {
	second int64
	key    string
}

// newSumTable returns an empty Table of at most so many lines and bytes, both at least 1. half is called, and must return at
// once, when a line is added beyond a half of either: it is time to take them.
func newSumTable(lines int, bytes int64, half func()) *sumTable {
	t := &sumTable{maxLines: int64(lines), maxBytes: bytes, half: half, seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].held.places, t.shards[i].spare.places = map[place]int32{}, map[place]int32{}
	}
	return t
}

// Add adds n hits of a key in a Unix second. It keeps a copy of the key. Hits of a key and
// second that are there take no room; others are refused with ErrFull beyond the bound.
func (t *sumTable) Add(key string, second int64, n uint64) error {
	if n-1 >= MaxHits {
		return fmt.Errorf("%d hits: n must be 1 to %d", n, uint64(MaxHits))
	}
	s := &t.shards[maphash.String(t.seed, key)%uint64(len(t.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errSumsClosed
	}
	if i, ok := s.held.places[place{second, key}]; ok && s.held.lines[i].N <= MaxHits-n {
		s.held.lines[i].N += n
		s.taken += n
		return nil
	}
	return t.begin(s, key, second, n)
}

// begin begins a line.
func (t *sumTable) begin(s *shard, key string, second int64, n uint64) error {
	if err := check(key, second); err != nil {
		return err
	}
	line := sumLine{strings.Clone(key), second, n}
	if !t.reserve(line.Bytes()) {
		s.refused += n
		return errSumsFull
	}
	s.held.places[place{second, line.Key}] = int32(len(s.held.lines))
	s.held.lines = append(s.held.lines, line)
	s.taken += n
	return nil
}

func (t *sumTable) reserve(bytes int64) bool {
	lines := t.lines.Add(1)
	if lines > t.maxLines {
		t.lines.Add(-1)
		return false
	}
	all := t.bytes.Add(bytes)
	if all > t.maxBytes {
		t.bytes.Add(-bytes)
		t.lines.Add(-1)
		return false
	}
	if lines > t.maxLines/2 || all > t.maxBytes/2 {
		t.half()
	}
	return true
}

// check finds what a server would refuse of a key or a time.
func check(key string, second int64) error {
	switch {
	case len(key) < 1 || len(key) > maxSumKeyBytes:
		return fmt.Errorf("a key of %d bytes: it must have 1 to %d", len(key), maxSumKeyBytes)
	case !utf8.ValidString(key):
		return fmt.Errorf("key %q: it must be UTF-8", key)
	case key == "*" || strings.HasPrefix(key, "limit:"):
		return fmt.Errorf("key %q: the server counts it by itself, and takes no hits of it", key)
	case second < 0:
		return fmt.Errorf("a hit of %d s before 1970: is the clock set?", -second)
	}
	return nil
}

// Take hands out all lines, each once, and leaves the table empty. One goroutine at a time may
// take.
func (t *sumTable) Take() (all []sumLine) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		full := s.held
		if len(full.lines) > 0 {
			s.held, s.spare = s.spare, held{}
		}
		s.mu.Unlock()
		if len(full.lines) == 0 {
			continue
		}
		all = append(all, full.lines...)
		clear(full.lines) // the keys
		clear(full.places)
		s.spare = held{full.places, full.lines[:0]}
	}
	return all
}

// Release makes room for as many lines as these, which were taken.
func (t *sumTable) Release(lines []sumLine) {
	var bytes int64
	for i := range lines {
		bytes += lines[i].Bytes()
	}
	t.lines.Add(-int64(len(lines)))
	t.bytes.Add(-bytes)
}

// Close refuses all further hits. What was added before can be taken.
func (t *sumTable) Close() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	}
}

// sumStats are the figures of a Table.
type sumStats struct {
	Taken   uint64 // hits that were added
	Refused uint64 // hits that there was no room for
	Lines   int64  // that count for the bound
	Bytes   int64
}

// Stats returns the figures now.
func (t *sumTable) Stats() sumStats {
	st := sumStats{Lines: t.lines.Load(), Bytes: t.bytes.Load()}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		st.Taken += s.taken
		st.Refused += s.refused
		s.mu.Unlock()
	}
	return st
}
