// Package replication is the side of a weir.Engine that a journal and a cluster use: what was
// counted here and is not stored yet (Engine.Cut), what was stored or counted elsewhere
// (Engine.Apply and its like), and which partitions the engine holds. Of(engine) has it. A
// program that counts and limits needs none of it.
//
// A partition is a fixed share of the key space. All its hits go through cuts, each in one of
// them, in the order of the journal; so nodes that apply the same cuts have the same counts.
//
// The types here are data: they know no engine, clock or lock. Package weir implements Engine.
package replication

import (
	"context"
	"math/bits"
	"time"
)

// Engine is the side of a weir.Engine that this package is about. All methods may be called by
// many goroutines at once, except where they say that they must not.
type Engine interface {
	Partitions
	Cuts
	Stored
	Applied
	Clock
}

// Of is that side of a *weir.Engine.
func Of[S Engine](engine With[S]) Engine { return Side(engine) }

// Partitions says which partitions an engine holds, and gives and takes them.
type Partitions interface {
	// PartitionOf is the number of the key's partition. It depends on the key and the number
	// of partitions alone: nodes must agree on it.
	PartitionOf(key string) int

	// Holds tells whether the engine holds a partition. A new engine holds all.
	Holds(partition int) bool

	// HoldsKey tells whether the engine holds the key's partition. Cost: a load where it
	// never released one.
	HoldsKey(key string) bool

	// HeldPartitions is the set of those that the engine holds now.
	HeldPartitions() PartitionSet

	// Hold takes a partition back that was released: a state that Cut made, nil where
	// there is none, and what the journal has after it, in order. Hits that no cut has yet are
	// kept too. What keys have used of limits is kept whether their partition is held or not. Questions are answered
	// once all is there. It must not run beside Cut. A state that LoadState would refuse is
	// refused, and so are windows that can't be merged; the partition stays released.
	Hold(partition int, state []byte, then []Followed) error

	// Release lets a partition go: its windows are forgotten, and of its hits only those
	// are kept that no cut has yet. Only for an engine with Config.Gather, whose journal
	// has the others. O(keys), under the partition's lock.
	Release(partition int)
}

// Cuts takes what was counted here, and says how much of it may wait.
type Cuts interface {
	// Cut moves the partition's new hits and admissions into c, whose memory is used again. With
	// Config.Gather, every hit is in exactly one cut: a hit that returned before Cut
	// was called is in this one or an earlier one. With withState, c.State is the
	// partition as it is after exactly the hits of all cuts so far, and of all
	// Apply calls; it must be held.
	//
	// It holds the partition's lock for O(deltas), with withState O(keys); nothing
	// else of the engine waits.
	Cut(partition int, c *Cut, withState bool)

	// CutReceipts runs cut, which calls Cut for the partitions, while no request of
	// Once is being applied, and returns the receipts since the call before: those
	// of requests whose hits are in these cuts or earlier ones. It also returns those requests,
	// if RecordRequests was called before they were applied.
	CutReceipts(cut func()) ([][]byte, []Request)

	// RecordRequests has the hits of requests recorded from now on. It is for an engine whose journal other
	// nodes write too.
	RecordRequests()

	// RecordedOnce is weir.Engine.OnceFrom with a recorder, which apply adds all hits to that it counts.
	// It is nil before RecordRequests.
	RecordedOnce(ctx context.Context, client, key string, fingerprint uint64, apply func(recorded *RequestRecorder) []byte) (answer []byte, repeated bool, err error)

	// Confirm tells that an own removal of a key, of a cut, came back from the journal, or
	// that nothing will be applied that is before it.
	Confirm(partition int, key string)

	// BoundWaiting bounds what may wait for Cut, in bytes of batches, beside
	// Config.MaxWaiting: when there is more, hits and removals are refused with
	// CodeOverloaded, and why. Below 0 all are. It may be changed at any time; until the
	// first call there is no such bound.
	//
	// It is how a journal has hits refused that it could not keep, before they are counted.
	BoundWaiting(bytes int64, why string)

	// TakePast has hits that are older than the retention taken for history, and no window, where
	// keeps says that it keeps the day of such a second for a key. They are in Cut.Past.
	TakePast(keeps func(key string, second int64) bool)

	// NotePast says that a node took such hits until a time, Unix ms: states tell it (State.Past).
	NotePast(until int64)

	// PastUntil is until when such hits were taken, Unix ms; 0: never.
	PastUntil() int64

	// Crowded tells whether hits are refused as too much waits for Cut.
	Crowded() bool

	// RefuseTakes has takes that would be admitted under a limit that is journaled refused
	// with CodeOverloaded, and why; "" ends that. What is denied is denied all the same, and
	// Peek and limits that are not journaled decide as ever.
	//
	// It is for a journal that takes no admissions: what it does not have, a crash gives back
	// to be admitted once more.
	RefuseTakes(why string)
}

// Stored brings back what an earlier life of the process stored, or another engine.
type Stored interface {
	// LoadState puts a state that Cut made into a partition that has had no hits, or
	// into one that was released, which takes what keys have used of limits alone. A
	// state that is damaged, or of an engine with other partitions or another
	// retention, is refused, and the partition stays empty.
	LoadState(partition int, state []byte) error

	// LoadStateSince is LoadState of a state since whose cut the time of day was set forward, by
	// set: what keys have used of their limits was used as much later.
	LoadStateSince(partition int, state []byte, set time.Duration) error

	// LoadHits is LoadState without what keys have used of their limits: for an engine that shows what
	// another counts, and decides nothing.
	LoadHits(partition int, state []byte) error

	// MergeWindows adds windows that come from a journal to those of a partition that is
	// held. They are not gathered. As with Apply, those of a key with an own removal on its
	// way count for AllKeys alone.
	MergeWindows(partition int, list []KeyWindow) error

	// MergeEvicted adds hits of evicted keys that come from a journal.
	MergeEvicted(partition int, list []Evicted)

	// Clear forgets all hits of a partition that is held, at a place of a journal: those that
	// no cut has stay, and own, the own hits and removals that were cut and come after that
	// place, in order. What keys have used of their limits stays. Windows and hits of evicted keys of then
	// take the place of what is forgotten: no answer about the partition is of a moment between.
	Clear(partition int, own []Delta, then []Followed) error

	// AtOnce runs a change of several partitions, made with the other methods: an answer about several partitions is of before
	// the change or of after it, and waits meanwhile.
	AtOnce(change func())

	// Admissions are what keys of a content have used of limits that survive a restart, as
	// ApplyAdmissions takes them: each at the latest time at which it may have been.
	Admissions(c Content) (list []Admission, err error)

	// ApplyAdmissions counts admissions that come from a journal. They are not
	// gathered again. Bytes that are no limit's are an error.
	ApplyAdmissions(partition int, list []Admission) error

	// Receipts returns all receipts, for a snapshot.
	Receipts() (all [][]byte)

	// LoadReceipts takes receipts back from a journal or a snapshot. Those that are
	// too old or known are left out, and the oldest when they are more than twice
	// Config.OnceMemory; one that can't be read is an error.
	LoadReceipts(encoded [][]byte) error

	// LoadReceiptsSince is LoadReceipts of receipts since which the time of day was set forward,
	// by set.
	LoadReceiptsSince(encoded [][]byte, set time.Duration) error
}

// Applied brings what a journal has, in its order.
type Applied interface {
	// Apply counts deltas that come from a journal: from an earlier life of this
	// process or from another node. They are not gathered again. Those of a second that
	// has not come, by the wall clock and MaxAhead, count where they belong and change
	// nothing else: see Stats.Ahead.
	//
	// The order of a journal is that of all nodes, and own hits and removals are here
	// before they are in it. So a hit that is applied while an own removal of its key is on
	// its way there (Confirm) was before that, and counts for AllKeys alone. A removal that
	// is applied does not take own hits that are on their way: own gives those of a key that
	// were cut, with the removals between them, in order; nil: there are none.
	Apply(partition int, deltas []Delta, own func(key string) []Delta)

	// ApplyOwn is Apply of own hits that were cut while their partition was not held: they
	// are in Stats already.
	ApplyOwn(partition int, deltas []Delta, own func(key string) []Delta)

	// Retract takes own hits of a batch back: the journal has them of another node already. deltas are these hits and all
	// removals of the batch, in order. Hits before an own removal of their key count for AllKeys alone: this one may be in
	// deltas, in a later batch, or not cut yet. Retract comes before Confirm of the removals in deltas.
	Retract(partition int, deltas []Delta)

	// FollowReceipts is LoadReceipts for those that another node gave a moment ago: they are
	// as of now, whatever its clock says.
	FollowReceipts(encoded [][]byte) error
}

// Clock is the engine's wall clock.
type Clock interface {
	// Wall is the time of day by the engine's wall clock, corrected, whatever its Clock.
	Wall() time.Time

	// UncorrectedWall is Wall without what CorrectClock adds.
	UncorrectedWall() time.Time

	// CorrectClock adds by to what the wall clock says, from now on: who knows that the clock
	// of this machine is wrong, and by how much, need not wait until it is set.
	CorrectClock(by time.Duration)

	// ClockCorrection is what CorrectClock was told last.
	ClockCorrection() time.Duration

	// LimitClockBehind is how far the time of day is ahead of the clock by which this process
	// keeps what keys have used: by how much it was set, corrected, or stood still, since the
	// engine was made. Limits are not wrong by it: see docs/limits-cluster.md.
	LimitClockBehind() time.Duration
}

// Delta is what one key adds to a batch: N hits in the second At, or with N = 0
// the key's removal from memory on request.
type Delta struct {
	Key string
	At  int64 // Unix seconds
	N   uint64
}

// Admission is what a batch has of a limit that survives a restart, or that other
// nodes count too: N admissions of a key, none later than At. Limit is the limit
// itself, in bytes that only an engine reads: a restart counts admissions before
// anybody has said what the limits are now.
type Admission struct {
	Limit string
	Key   string
	At    int64 // Unix ms, by the clock of the node that admitted
	N     uint64
}

// Cut is what a partition gathered since the cut before.
type Cut struct {
	Deltas      []Delta     // in the order in which they settled; a key and second may repeat
	Past        []Delta     // hits for history alone (Cuts.TakePast), after the removals of Deltas
	PastRemoved []Delta     // and those before them, of keys that were removed since
	Admissions  []Admission // of limits that survive a restart
	State       []byte      // the partition after all these, if asked for: see Engine.LoadState
}

// Followed is what a journal has of a partition at one place. Only one field is set.
type Followed struct {
	Deltas  []Delta     // as of Engine.Apply
	Windows []KeyWindow // as of Engine.MergeWindows
	Evicted []Evicted   // as of Engine.MergeEvicted
	Clear   bool        // all hits before it are gone
}

// PartitionSet is some of an engine's partitions, a bit for each; nil is all of
// them.
type PartitionSet []uint64

// NewPartitionSet returns an empty set, for an engine of so many partitions.
func NewPartitionSet(partitions int) PartitionSet { return make(PartitionSet, (partitions+63)/64) }

// Add puts a partition into the set, which was made for as many.
func (s PartitionSet) Add(partition int) { s[partition/64] |= 1 << (partition % 64) }

// Remove takes a partition out.
func (s PartitionSet) Remove(partition int) { s[partition/64] &^= 1 << (partition % 64) }

// Has tells whether a partition is in the set.
func (s PartitionSet) Has(partition int) bool {
	return s == nil || partition/64 < len(s) && s[partition/64]>>(partition%64)&1 != 0
}

// Len is how many partitions are in the set; of nil it is 0.
func (s PartitionSet) Len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}
