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

// batch is lines that are sent together, under one idempotency key. Its body is the same in every attempt.
type batch struct {
	epoch    uint64 // when its lines were taken from the table
	lines    []sumLine
	key      string
	attempts int
	doubtful time.Time // when an attempt first got no answer; zero: never
}

func newBatch(epoch uint64, lines []sumLine) *batch {
	return &batch{epoch: epoch, lines: lines, key: rand.Text()}
}

// body writes the lines into a buffer.
func (b *batch) body(to []byte) []byte {
	for i := range b.lines {
		l := &b.lines[i]
		to = appendHit(to, Hit{Key: l.Key, N: l.N, At: time.Unix(l.Second, 0)})
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

// outcome is the result of an attempt to send a batch.
type outcome struct {
	settled bool // these lines are done: answer says how
	answer  api.HitsAnswer
	rest    []sumLine // the other lines: to be sent in new batches, because the server took none of them
	again   bool      // nothing of it was counted by this attempt: any node may be sent it
	err     error     // for Notify; nil: all is well
	refused *Error    // has the pause that the server asks for
	closing bool      // the attempt began after Close
}

// judge returns what the end of an attempt means. If it is neither settled nor again, the batch is in doubt.
func (b *batch) judge(text []byte, err error) (o outcome) {
	o.err = err
	switch {
	case err == nil:
		if o.err = decode(text, &o.answer); o.err != nil {
			return o // not a Weir server, but maybe a proxy of one
		}
	case neverSent(err):
		o.again = true
		return o
	case !errors.As(err, &o.refused):
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

// tooLarge reports whether the server takes smaller batches, and counted none of this one.
func (e *Error) tooLarge() bool {
	return e.Code == api.CodeTooManyLines || e.Code == api.CodeBodyTooLarge
}

// final reports whether the refusal is about the hits themselves, so that each further attempt would end in the same way.
// Roles and settings of servers may change.
func (e *Error) final(a *api.HitsAnswer) bool {
	switch e.Code {
	case api.CodeNothingCounted, api.CodeTooLate, api.CodeTooManyLines, api.CodeBodyTooLarge, api.CodeInvalidKey:
		return true
	}
	return a.RejectedLines > 0
}

// MaxHits is how many hits a server takes as one, of one key at one time.
const MaxHits = 1 << 40

const maxSumKeyBytes = 512

// sumLineBytes is what a line takes at most in addition to its key: the line itself, its place in the table, and the spare
// capacity of both.
const sumLineBytes = 320

// sumLine is the hits of a key in one second.
type sumLine struct {
	Key    string
	Second int64 // Unix
	N      uint64
}

// Bytes is what the line takes of the bound.
func (l *sumLine) Bytes() int64 { return int64(len(l.Key)) + sumLineBytes }

// sumTable adds up hits by key and second until they are taken, within a bound of lines and bytes. It is safe for many
// goroutines, and has no clock and no goroutine of its own.
//
// Lines that were taken still count for the bound, until they are released: they are still in memory.
type sumTable struct {
	maxLines, maxBytes int64
	lines, bytes       atomic.Int64 // within the bound, but for the moment until a line beyond it is taken back
	half               func()       // called for each line beyond a half of the bound

	seed   maphash.Seed
	shards [64]shard
}

// shard has the lines of a share of the keys. A hit costs a hash, a lock with little contention and a look-up.
type shard struct {
	mu      sync.Mutex
	closed  bool
	held    held
	taken   uint64 // hits, ever
	refused uint64 // hits beyond the bound
	spare   held   // empty, the next held; belongs to the goroutine that takes
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

// newSumTable returns an empty table of at most so many lines and bytes, both at least 1. It calls half, which must return at
// once, for each line that is added beyond a half of either: it is time to take them.
func newSumTable(lines int, bytes int64, half func()) *sumTable {
	t := &sumTable{maxLines: int64(lines), maxBytes: bytes, half: half, seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].held.places, t.shards[i].spare.places = map[place]int32{}, map[place]int32{}
	}
	return t
}

// Add adds n hits of a key in a Unix second. It keeps a copy of the key. Beyond the bound it returns ErrFull for hits that
// need a new line.
func (t *sumTable) Add(key string, second int64, n uint64) error {
	if n-1 >= MaxHits {
		return fmt.Errorf("%d hits: n must be 1 to %d", n, uint64(MaxHits))
	}
	s := &t.shards[maphash.String(t.seed, key)%uint64(len(t.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
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
		return ErrFull
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

// check returns why a server would refuse a key or a time.
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

// Take returns all lines, each once, and leaves the table empty. One goroutine at a time may call it.
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

// Release gives back what lines that were taken use of the bound.
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

// Stats returns Taken, Refused, Lines and Bytes.
func (t *sumTable) Stats() SenderStats {
	st := SenderStats{Lines: t.lines.Load(), Bytes: t.bytes.Load()}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		st.Taken += s.taken
		st.Refused += s.refused
		s.mu.Unlock()
	}
	return st
}
