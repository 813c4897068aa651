package replica

import (
	"bytes"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
)

// Flusher makes a node's flushes, one after the other. Its driver publishes what Part returns, repeats that until the
// store has it, and then calls Acknowledged. End follows the last part. The journal's goroutine and the simulation's
// events drive it alike.
//
// A flush waits for the store alone, never for space: see Space.
type Flusher struct {
	r     *Replica
	space *Space

	last    uint64 // message of the last part that was acknowledged, or of what is before it
	cut     Flush  // under way
	sent    int    // of its parts
	stated  int    // how many of its first parts the states that were taken include; the parts of More follow
	from    uint64 // message of the last stated part
	due     map[int]bool
	quiet   bool
	foreign bool // parts of a backup, which say nothing of this node
	began   time.Time

	open    atomic.Int64            // entries of flushes that are not acknowledged: what would be lost with them
	written atomic.Pointer[Written] // the last flush of this incarnation that was acknowledged; nil: not even its hello
}

// NewFlusher returns a flusher whose first flush comes after message last of the journal.
func NewFlusher(r *Replica, space *Space, last uint64) *Flusher {
	return &Flusher{r: r, space: space, last: last}
}

// FlushOptions are the options of a flush. States and Quiet follow from Due and from the space that is left.
type FlushOptions struct {
	CutOptions
	Closing bool                          // it is one of the last
	Due     func(haste bool) map[int]bool // of which partitions the state is taken; nil: none
}

// Begin cuts a flush of all that the engine gathered until now, and limits the engine to the space that remains after
// it.
func (f *Flusher) Begin(now time.Time, as FlushOptions) {
	f.due, f.quiet, f.foreign, f.began, f.sent = nil, f.space.Spent() && !as.Closing, false, now, 0
	if as.Due != nil {
		f.due = as.Due(f.space.Haste())
	}
	as.States, as.Quiet = f.due, f.quiet
	f.cut = f.r.Cut(now, as.CutOptions)
	f.stated, f.from = len(f.cut.Parts), f.last
	f.open.Add(int64(f.cut.Entries)) // added to the entries of a flush that was given up
	f.space.Bound(f.r.engine, record.SizeOf(f.cut.Parts))
}

// More cuts another flush while one is under way that the store does not take: its parts are
// published after those. It returns all parts that are not acknowledged.
func (f *Flusher) More(now time.Time) (unwritten [][]byte) {
	more := f.r.Cut(now, CutOptions{})
	f.cut.Parts = append(f.cut.Parts, more.Parts...)
	f.open.Add(int64(more.Entries))
	return slices.Clone(f.cut.Parts[f.sent:])
}

// BeginForeign takes the parts of a flush that is not this node's own: of a backup.
func (f *Flusher) BeginForeign(now time.Time, parts [][]byte) {
	f.cut, f.due, f.quiet, f.foreign, f.began, f.sent = Flush{Parts: parts}, nil, false, true, now, 0
}

// Part is what is to be published now, the same until it is acknowledged; nil: the store
// has all.
func (f *Flusher) Part() []byte {
	if f.sent == len(f.cut.Parts) {
		return nil
	}
	return f.cut.Parts[f.sent]
}

// Acknowledged notes that the store has Part, as a message of the journal.
func (f *Flusher) Acknowledged(message uint64) {
	f.space.Wrote(len(f.cut.Parts[f.sent]))
	f.last = message
	if f.sent++; f.sent == f.stated {
		f.from = message
	}
}

// Flushed is what comes of a flush that is in the journal.
type Flushed struct {
	Parts int               // it had; 0: there was nothing to say
	Due   map[int]bool      // whose state was to be taken
	Snaps []record.Snapshot // what was
	Later []int             // what was not, and is to be taken again
	Quiet bool              // callers that waited for it are refused: there is no space
}

// End ends a flush all of whose parts are acknowledged.
func (f *Flusher) End() Flushed {
	if f.foreign {
		return Flushed{Parts: f.sent}
	}
	if f.sent > 0 {
		f.open.Store(0)
		f.written.Store(&Written{f.r.LastFlush(), f.began})
	}
	f.space.Bound(f.r.engine, 0)
	if !f.space.clustered {
		for i := range f.cut.Snaps {
			f.cut.Snaps[i].From = f.from // this flush is in the states
		}
	}
	return Flushed{Parts: f.sent, Due: f.due, Snaps: f.cut.Snaps, Later: f.r.Later(f.due, f.cut.Snaps), Quiet: f.quiet}
}

// NoteClockSet calls Replica.NoteClockSet with the last message that was written or followed. The next flush has times
// of the new clock, and must be written even if it is empty.
func (f *Flusher) NoteClockSet() (by time.Duration, is bool) {
	return f.r.NoteClockSet(max(f.last, f.r.Next()-1))
}

// SaidHello notes that the first flush of this incarnation, begun at a time, is in the
// journal.
func (f *Flusher) SaidHello(began time.Time, message uint64) {
	f.last = message
	f.written.Store(&Written{f.r.LastFlush(), began})
	f.space.Bound(f.r.engine, 0)
}

// Last is the message of the last part that was acknowledged. It is for the goroutine that drives the Flusher.
func (f *Flusher) Last() uint64 { return f.last }

// Parts returns the parts of the flush under way. It is for the goroutine that drives the Flusher.
func (f *Flusher) Parts() [][]byte { return f.cut.Parts }

// Began is when the last flush began. It is for the goroutine that drives the Flusher.
func (f *Flusher) Began() time.Time { return f.began }

// Open is how many entries are not acknowledged: what would be lost with them. It is for
// any goroutine.
func (f *Flusher) Open() int64 { return f.open.Load() }

// Written is the last flush that the journal has, nil before the hello. It is for any
// goroutine.
func (f *Flusher) Written() *Written { return f.written.Load() }

// gathered is what the journal has for one partition, in order. Hits, the windows of a
// restored backup and clears are steps, since a removal or a clear takes what is before it.
type gathered struct {
	steps   []step
	entries int // how many there are; of windows, as many as take their bytes
}

// step is either deltas or a batch of a restored backup. That stays encoded until it is
// applied: windows are several times larger in memory.
type step struct {
	deltas   []replication.Delta
	restored record.Batch
}

// entryBytes is about how much an entry takes.
const entryBytes = 32

// add appends a batch of another kind than admissions.
func (g *gathered) add(b record.Batch) {
	if b.Kind == record.KindHits {
		list := b.Deltas()
		g.entries += len(list)
		if last := len(g.steps) - 1; last >= 0 && g.steps[last].deltas != nil {
			g.steps[last].deltas = append(g.steps[last].deltas, list...)
		} else if len(list) > 0 {
			g.steps = append(g.steps, step{deltas: list})
		}
		return
	}
	if b.Kind == record.KindClear {
		g.steps, g.entries = nil, 0
	}
	then := b.Then
	b.Entries, b.Then = bytes.Clone(b.Entries), nil // else it keeps the whole message in memory
	g.steps = append(g.steps, step{restored: b})
	g.entries += 1 + len(b.Entries)/entryBytes
	for _, b := range then {
		g.add(b)
	}
}

// followed is what was gathered of hits, as the engine takes it.
func (g *gathered) followed() (list []replication.Followed) {
	for i := range g.steps {
		f := followed(&g.steps[i].restored)
		f.Deltas = g.steps[i].deltas
		list = append(list, f)
	}
	return list
}

// followed is a batch of a restored backup, which was checked, as the engine takes it.
func followed(b *record.Batch) (f replication.Followed) {
	switch b.Kind {
	case record.KindWindows:
		f.Windows, _ = b.Windows()
	case record.KindEvicted:
		f.Evicted, _ = b.Evicted()
	case record.KindDistinct:
		f.Distinct = b.Distinct()
	case record.KindClear:
		f.Clear = true
	}
	return f
}
