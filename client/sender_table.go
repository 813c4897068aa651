package client

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// MaxHits is the most hits of one key at one time that a server takes as one line.
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

// Bytes is how much of the bound the line uses.
func (l *sumLine) Bytes() int64 { return int64(len(l.Key)) + sumLineBytes }

// sumTable adds up hits by key and second until they are taken, within a bound of lines and bytes. It is safe for many
// goroutines, and has no clock and no goroutine of its own.
//
// Lines that were taken still count for the bound, until they are released: they are still in memory.
type sumTable struct {
	maxLines, maxBytes int64
	lines, bytes       atomic.Int64 // within the bound, but for the moment until a line beyond it is taken back
	overHalf           func()       // called for each line beyond half of the bound: it is time to take them

	seed   maphash.Seed
	shards [64]shard
}

// shard has the lines of a share of the keys. A hit costs a hash, a lock with little contention and a look-up.
type shard struct {
	mu      sync.Mutex
	closed  bool
	places  map[place]int32 // in lines
	lines   []sumLine
	added   uint64 // hits, ever
	refused uint64 // hits beyond the bound
	_       [64]byte
}

type place struct {
	second int64
	key    string
}

// newSumTable returns an empty table of at most so many lines and bytes, both at least 1.
func newSumTable(lines int, bytes int64) *sumTable {
	t := &sumTable{maxLines: int64(lines), maxBytes: bytes, overHalf: func() {}, seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].places = map[place]int32{}
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
	if i, ok := s.places[place{second, key}]; ok && s.lines[i].N <= MaxHits-n {
		s.lines[i].N += n
		s.added += n
		return nil
	}
	return t.begin(s, key, second, n)
}

// begin begins a line.
func (t *sumTable) begin(s *shard, key string, second int64, n uint64) error {
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
	line := sumLine{strings.Clone(key), second, n}
	lines, bytes := t.lines.Add(1), t.bytes.Add(line.Bytes())
	if lines > t.maxLines || bytes > t.maxBytes {
		t.lines.Add(-1)
		t.bytes.Add(-line.Bytes())
		s.refused += n
		return ErrFull
	}
	if lines > t.maxLines/2 || bytes > t.maxBytes/2 {
		t.overHalf()
	}
	s.places[place{second, line.Key}] = int32(len(s.lines))
	s.lines = append(s.lines, line)
	s.added += n
	return nil
}

// Take returns all lines, each once, and leaves the table empty.
func (t *sumTable) Take() (all []sumLine) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if len(s.lines) > 0 {
			all = append(all, s.lines...)
			clear(s.lines) // the keys
			clear(s.places)
			s.lines = s.lines[:0]
		}
		s.mu.Unlock()
	}
	return all
}

// Release frees the part of the bound that lines used, after Take.
func (t *sumTable) Release(lines []sumLine) {
	for i := range lines {
		t.bytes.Add(-lines[i].Bytes())
	}
	t.lines.Add(-int64(len(lines)))
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
		st.Taken += s.added
		st.Refused += s.refused
		s.mu.Unlock()
	}
	return st
}
