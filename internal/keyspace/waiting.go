package keyspace

import (
	"sync/atomic"

	"github.com/weir-counter/weir/internal/replication"
)

// waiting is what an engine took and no cut has yet, and how much of it there may be.
type waiting struct {
	entries atomic.Int64 // deltas and filled live cells
	bytes   atomic.Int64 // what they take in batches, at most
	bound   atomic.Pointer[waitingBound]
}

// waitingBound is what replication.Engine.BoundWaiting said last.
type waitingBound struct {
	bytes int64
	why   string
}

// entryBytes is what an entry of a batch takes at most, beside its key.
const entryBytes = 24

func waitingBytes(key string) int { return len(key) + entryBytes }

func bytesOf(deltas []replication.Delta) (n int) {
	for _, d := range deltas {
		n += waitingBytes(d.Key)
	}
	return n
}

// BoundWaiting bounds what may wait, in bytes: see replication.Engine.BoundWaiting.
func (s *shared) BoundWaiting(bytes int64, why string) {
	w := &s.waiting
	if was := w.bound.Load(); was == nil || *was != (waitingBound{bytes, why}) {
		w.bound.Store(&waitingBound{bytes, why})
	}
}

// Crowded tells whether too much waits for a cut.
func (s *shared) Crowded() bool { return s.waiting.tooMuch(s.maxWaiting) }

func (w *waiting) tooMuch(most int64) bool {
	if w.entries.Load() > most {
		return true
	}
	bound := w.bound.Load()
	return bound != nil && w.bytes.Load() > bound.bytes
}

// WhyCrowded is why hits are refused while too much waits; "": it is the number of entries.
func (s *shared) WhyCrowded() string {
	if bound := s.waiting.bound.Load(); bound != nil && s.waiting.bytes.Load() > bound.bytes {
		return bound.why
	}
	return ""
}
