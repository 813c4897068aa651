package replica

import (
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
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
	burstMessage   = "more hits wait for the disk than --max-disk (MaxBytes) leaves room for: retry in a second, or raise --max-disk" // only the next flush is full
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
func (s *Space) Bound(e *weir.Engine, underWay int) {
	if s.max == 0 {
		return
	}
	r, retained := s.Room(), s.Retained()
	bytes, why := r.Waiting(retained, int64(underWay)), burstMessage
	if bytes < 0 {
		why = fullMessage
	}
	s.full.Store(r.Full(retained))
	replication.Of(e).BoundWaiting(bytes, why)
	if r.Admits(retained, int64(underWay)) {
		replication.Of(e).RefuseTakes("")
	} else {
		replication.Of(e).RefuseTakes(noTakesMessage)
	}
}

// Refuse has the engine refuse hits and decisions that would admit, and say why.
func (s *Space) Refuse(e *weir.Engine, why string) {
	replication.Of(e).BoundWaiting(-1, why)
	replication.Of(e).RefuseTakes(why)
}

// Fail has the engine of a node alone refuse what a flush that failed could not take: a
// crash must not lose more than one flush interval. A clustered node goes on, for what
// fails there may be an election, and says who does not store. why ends the sentence that whoever is refused reads.
func (s *Space) Fail(e *weir.Engine, why string) {
	if !s.clustered {
		s.Refuse(e, failingMessage+why)
	}
}
