package replica

import (
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// Space shares out a data directory's size bound, Config.MaxBytes, by how much journal there is. A node of a journal decides by it, and
// the simulation alike. It is safe for many goroutines. Of sixteen parts of the bound
//
//	0       4           6     7   8                                       16
//	|-------|-----------|-----|---|---------------------------------------|
//	journal   in haste    full      two snapshots of each partition
//	                            spent
//
// No flush ever waits for space. Otherwise there would be a circle of waiting:
//
//	hit -> flush -> space -> trim -> snapshots -> states -> the next flush
//
// A state counts only with the own hits in it, and these are in the journal first. So the circle is cut at its beginning,
// where that does no harm. From full on, hits are refused before they are counted
// (keyspace.Keyspace.BoundWaiting). Hits that were counted until then are bounded so that they have space, on all nodes
// together. The flush that takes a state is then small or empty, and nothing that frees space waits for any:
//
//	hit (refused)     flush -> the store     trim -> snapshots -> states -> the last flush
//
// Admissions write too. No flush may leave them in memory: a crash would give back more of them than one flush interval has. So
// decisions that would admit are refused (admission.Table.RefuseTakes) from half way between full and spent on. When the
// space is spent, heartbeats and totals wait, and callers that wait for a flush are refused (concurrency.ErrQueueFull).
// The store itself takes MaxBytes, which the rest never comes to (see MinDisk of package durable).
type Space struct {
	max       int64
	clustered bool

	retained atomic.Int64 // bytes of journal on disk
	grown    atomic.Int64 // bytes of journal since the last round of snapshots began
	writers  atomic.Int64 // nodes that write the journal: what is counted on each must have space; 0: not known yet
	looked   time.Time    // the flusher's: when the store was last asked how much there is
}

// What the engine says to callers that it refuses.
const (
	fullMessage    = "the journal has used its part of --max-disk (MaxBytes): retry in some seconds, when it has been trimmed; if this lasts, see /readyz, and raise --max-disk"
	burstMessage   = "more hits wait for the disk than --max-disk (MaxBytes) has space for: retry in a second, or raise --max-disk" // only the next flush is full
	noTakesMessage = "the journal has used the part of --max-disk (MaxBytes) for admissions: retry in some seconds, when it has been trimmed; if this lasts, see /readyz, and raise --max-disk"
	failingMessage = "hits and admissions do not reach the disk: retry in a second; if this lasts, see /readyz: "
)

const (
	// spaceParts is in how many parts the bound is shared out.
	spaceParts = 16

	// MessageBytes is what the store adds to each message.
	MessageBytes = 64

	// LookEvery is how often a clustered node asks how much journal there is, which others
	// write and trim, and LookAgain, where that is much.
	LookEvery = 5 * time.Second
	LookAgain = 200 * time.Millisecond
)

// Init sets the size bound, Config.MaxBytes; 0 is none. It is called once, first.
func (s *Space) Init(max int64, clustered bool) { s.max, s.clustered = max, clustered }

// Retained is how many bytes of journal there are on disk, as far as it is known.
func (s *Space) Retained() int64 { return s.retained.Load() }

// Wrote counts a message of so many bytes that came into the journal, of this node or
// another.
func (s *Space) Wrote(bytes int) {
	s.grown.Add(int64(bytes))
	s.retained.Add(int64(bytes + MessageBytes))
}

// RoundBegan begins to count anew what a round of snapshots waits for.
func (s *Space) RoundBegan() { s.grown.Store(0) }

// Loaded notes how many bytes of journal a start found.
func (s *Space) Loaded(bytes uint64) {
	s.grown.Store(int64(bytes))
	s.retained.Store(int64(bytes))
}

// Found notes how many bytes of journal the store says that there are. The flusher may add
// to it meanwhile: it is an estimate.
func (s *Space) Found(bytes uint64) { s.retained.Store(int64(bytes)) }

// SetWriters says how many nodes write the journal.
func (s *Space) SetWriters(nodes int) { s.writers.Store(int64(nodes)) }

// LookDue tells before a flush whether it is time to ask how much journal others have
// written or trimmed.
func (s *Space) LookDue(now time.Time) bool {
	every := LookEvery
	if s.Haste() {
		every = LookAgain
	}
	if !s.clustered || s.max == 0 || now.Sub(s.looked) < every {
		return false
	}
	s.looked = now
	return true
}

// above reports whether the journal takes more than some parts of the bound, if there is one.
func (s *Space) above(parts int64) bool { return s.max > 0 && s.Retained() > s.max/spaceParts*parts }

// Haste reports whether the journal takes so much that rounds of snapshots must be quick.
func (s *Space) Haste() bool { return s.above(4) }

// Spent reports whether the space beyond full, for hits that were counted already, is used up.
func (s *Space) Spent() bool { return s.above(8) }

// FullFrom is how much journal there may be before hits are refused. A node alone knows
// to the byte how much there is; of many, each knows it from a moment ago.
func (s *Space) FullFrom() int64 {
	if s.clustered {
		return s.max / spaceParts * 6
	}
	return s.max / spaceParts * 7
}

// Full reports whether hits are refused for want of space.
func (s *Space) Full() bool { return s.max > 0 && s.waiting(0) < 0 }

// Takes reports whether there is space for so many bytes of something large that is no hit's, and can wait.
func (s *Space) Takes(bytes int64) bool { return s.Retained()+bytes <= s.TakesMost() }

// TakesMost is how much journal there may be for Takes.
func (s *Space) TakesMost() int64 { return s.FullFrom() - s.max/spaceParts }

// EndsPin reports whether nothing may keep snapshots from being taken any more.
func (s *Space) EndsPin() bool { return !s.Takes(0) }

// waiting is how many bytes of hits may wait for a flush, in addition to those under way; below 0
// none are taken. Of many nodes each may have its share, twice: under way, and waiting.
func (s *Space) waiting(underWay int64) int64 {
	left := s.FullFrom() - s.Retained() - underWay
	switch {
	case left < s.max/spaceParts/16:
		return -1
	case s.clustered:
		return s.max / spaceParts / 2 / max(s.writers.Load(), 1)
	}
	return left
}

// roundDue reports whether the journal has grown enough for a round of snapshots, if the round before wrote so many
// bytes. While the journal has space, snapshots write no more than the journal.
func (s *Space) roundDue(snapshotBytes, last int64) bool {
	every := min(max(snapshotBytes, last), s.max/8)
	if s.Haste() {
		every = min(every, s.max/64)
	}
	return s.grown.Load() >= every
}

// Bound has the engine refuse what could not be kept, while so many bytes are on their way.
func (s *Space) Bound(e *engine.Engine, underWay int) {
	if s.max == 0 {
		return
	}
	bytes, why := s.waiting(int64(underWay)), burstMessage
	if bytes < 0 {
		why = fullMessage
	}
	e.Keyspace().BoundWaiting(bytes, why)
	if s.Retained()+int64(underWay) <= s.max/spaceParts/2*15 {
		e.Limits().RefuseTakes("")
	} else {
		e.Limits().RefuseTakes(noTakesMessage)
	}
}

// Refuse has the engine refuse hits and decisions that would admit, and say why.
func (s *Space) Refuse(e *engine.Engine, why string) {
	e.Keyspace().BoundWaiting(-1, why)
	e.Limits().RefuseTakes(why)
}

// Fail makes the engine of a node alone refuse hits after a flush failed, because a crash must not lose more than one
// flush interval. A clustered node continues, because the failure may be an election, and names the nodes that do not
// store. The message for refused callers ends with why.
func (s *Space) Fail(e *engine.Engine, why string) {
	if !s.clustered {
		s.Refuse(e, failingMessage+why)
	}
}
