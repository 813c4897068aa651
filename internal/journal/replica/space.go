package replica

import (
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// Space is what a node knows of how much room the journal takes (Room), and has its
// engine keep to. It is safe for many goroutines.
type Space struct {
	max       int64
	clustered bool

	retained atomic.Int64 // bytes of journal on disk
	grown    atomic.Int64 // bytes of journal since the last round of snapshots began
	writers  atomic.Int64 // nodes that write the journal; 0: not known yet
	full     atomic.Bool  // hits are refused for want of room
	looked   time.Time    // the flusher's: when the store was last asked how much there is
}

// What the engine tells whoever is refused.
const (
	fullMessage    = "the journal has taken its share of --max-disk (MaxBytes), and what is counted now could not be kept: retry in some seconds, when snapshots have been stored and it is trimmed; if it lasts, see /readyz, and raise --max-disk"
	burstMessage   = "more hits wait for the disk than --max-disk (MaxBytes) has space for: retry in a second, or raise --max-disk" // only the next flush is full
	noTakesMessage = "the journal has taken all that --max-disk (MaxBytes) leaves for admissions, and a crash would give back what it does not have: retry in some seconds, when it is trimmed; if it lasts, see /readyz, and raise --max-disk"
	failingMessage = "hits and admissions do not reach the disk: retry in a second; if it lasts, see /readyz: "
)

// Init sets the size bound, Config.MaxBytes; 0 is none. It is called once, first.
func (s *Space) Init(max int64, clustered bool) { s.max, s.clustered = max, clustered }

// Room is how the data directory is shared out.
func (s *Space) Room() Room { return Room{s.max, int(s.writers.Load()), s.clustered} }

// Retained is how many bytes of journal there are on disk, as far as it is known.
func (s *Space) Retained() int64 { return s.retained.Load() }

// Grown is how many were written since the last round of snapshots began.
func (s *Space) Grown() int64 { return s.grown.Load() }

// Full tells whether hits are refused for want of room.
func (s *Space) Full() bool { return s.full.Load() }

// Haste tells whether rounds of snapshots must be quick.
func (s *Space) Haste() bool { return s.max > 0 && s.Room().Haste(s.Retained()) }

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

// LookEvery is how often a clustered node asks how much journal there is, which others
// write and trim, where that is not much.
const LookEvery = 5 * time.Second

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

// Flushing is what the next flush is like; last says that it is one of the last.
func (s *Space) Flushing(last bool) (as Flushing) {
	if s.max == 0 {
		return as
	}
	return s.Room().Flushing(s.Retained(), last)
}

// Bound has the engine refuse what could not be kept, while so many bytes are on their way.
func (s *Space) Bound(e *engine.Engine, underWay int) {
	if s.max == 0 {
		return
	}
	r, retained := s.Room(), s.Retained()
	bytes, why := r.Waiting(retained, int64(underWay)), burstMessage
	if bytes < 0 {
		why = fullMessage
	}
	s.full.Store(r.Full(retained))
	e.BoundWaiting(bytes, why)
	if r.Admits(retained, int64(underWay)) {
		e.RefuseTakes("")
	} else {
		e.RefuseTakes(noTakesMessage)
	}
}

// Refuse has the engine refuse hits and decisions that would admit, and say why.
func (s *Space) Refuse(e *engine.Engine, why string) {
	e.BoundWaiting(-1, why)
	e.RefuseTakes(why)
}

// Fail has the engine of a node alone refuse what a flush that failed could not take: a
// crash must not lose more than one flush interval. A clustered node goes on, for what
// fails there may be an election, and says who does not store. why ends the sentence that whoever is refused reads.
func (s *Space) Fail(e *engine.Engine, why string) {
	if !s.clustered {
		s.Refuse(e, failingMessage+why)
	}
}

// Room is how Config.MaxBytes is shared out, in pure figures: the journal that it is
// asked of, and the simulation, decide alike. Of sixteen parts
//
//	0       4           6     7   8                                       16
//	|-------|-----------|-----|---|---------------------------------------|
//	journal   in haste    full      two snapshots of each partition
//	                            spent
//
// No flush ever waits for room. What would wait for what, were it otherwise:
//
//	hit -> flush -> room -> trim -> snapshots -> states -> the next flush
//
// is a circle, for a state counts only with the own hits in it, which are in the
// journal first. So it is cut where it does no harm, at its beginning: from full on,
// hits are refused before they are counted (engine.Engine.BoundWaiting), and what was counted
// until then is bounded so that it has room, on all nodes together. The flush that takes
// a state is then small or empty, and nothing that frees room waits for any:
//
//	hit (refused)     flush -> the store     trim -> snapshots -> states -> the last flush
//
// Beside hits, what writes is: admissions, which no flush leaves in memory, or a crash
// would give more of them back than those of one flush interval; so decisions that would
// admit are refused (engine.Engine.RefuseTakes) from half way between full and spent on. When it
// is spent, heartbeats and totals wait, and whoever waits for a flush is refused (errFull).
// The store itself takes MaxBytes, which the rest never comes to (see MinDisk of package journal).
type Room struct {
	Max       int64 // Config.MaxBytes
	Nodes     int   // that write the journal: what is counted on each must have room
	Clustered bool
}

// roomParts is in how many parts max is shared out.
const roomParts = 16

// MessageBytes is what the store adds to each message.
const MessageBytes = 64

// Haste tells whether the journal has taken so much that rounds must be quick.
func (r Room) Haste(retained int64) bool { return retained > r.Max/roomParts*4 }

// FullFrom is how much journal there may be before hits are refused. A node alone knows
// to the byte how much there is; of many, each knows it from a moment ago.
func (r Room) FullFrom() int64 {
	if r.Clustered {
		return r.Max / roomParts * 6
	}
	return r.Max / roomParts * 7
}

// Full tells whether hits are refused.
func (r Room) Full(retained int64) bool { return r.Waiting(retained, 0) < 0 }

// Flushing is what the next flush is like, by how much journal there is.
type Flushing struct {
	Haste bool // it takes more states
	Quiet bool // it has no heartbeats and totals, and whoever waits for it is refused
}

// Flushing decides it. last says that it is one of the last flushes.
func (r Room) Flushing(retained int64, last bool) Flushing {
	return Flushing{Haste: r.Haste(retained), Quiet: r.Spent(retained) && !last}
}

// Admits tells whether there is room for admissions, while so many bytes are on their way.
func (r Room) Admits(retained, underWay int64) bool { return retained+underWay <= r.Max/roomParts/2*15 }

// Takes tells whether there is room for something large that is no hit's, and can wait.
func (r Room) Takes(retained, bytes int64) bool { return retained+bytes <= r.TakesMost() }

// TakesMost is how much journal there may be for Takes.
func (r Room) TakesMost() int64 { return r.FullFrom() - r.Max/roomParts }

// EndsPin tells whether nothing may keep snapshots from being taken any more.
func (r Room) EndsPin(retained int64) bool { return retained > r.TakesMost() }

// Spent tells whether all is used that full left for what was counted.
func (r Room) Spent(retained int64) bool { return retained > r.Max/roomParts*8 }

// Waiting is how many bytes of hits may wait for a flush, beside those under way; below 0
// none are taken. Of many nodes each may have its share, twice: under way, and waiting.
func (r Room) Waiting(retained, underWay int64) int64 {
	left := r.FullFrom() - retained - underWay
	switch {
	case left < r.Max/roomParts/16:
		return -1
	case r.Clustered:
		return r.Max / roomParts / 2 / int64(max(r.Nodes, 1))
	}
	return left
}

// Every is by how much the journal grows between rounds of snapshots, if the round
// before took so many bytes: snapshots write no more than the journal, as long as that
// has room.
func (r Room) Every(snapshotBytes, last, retained int64) int64 {
	every := min(max(snapshotBytes, last), r.Max/8)
	if r.Haste(retained) {
		every = min(every, r.Max/64)
	}
	return every
}

// LookAgain is how often a clustered node looks how much journal there is, where that
// is much; LookEvery, where not.
const LookAgain = 200 * time.Millisecond
