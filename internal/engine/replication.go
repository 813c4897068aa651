package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

// HeldPartitions is the set of those that the engine holds now.
func (e *Engine) HeldPartitions() replication.PartitionSet {
	k := e.keys
	s := replication.NewPartitionSet(e.cfg.Partitions)
	for i := range e.cfg.Partitions {
		if k.Holds(i) {
			s.Add(i)
		}
	}
	return s
}

// Wall is the engine's wall clock, whatever its Clock: its Time is the time of day, corrected.
func (e *Engine) Wall() *keyspace.Wall { return &e.clock.Wall }

// LimitClockBehind is how far the time of day is ahead of the clock by which this process keeps what keys have used. It
// is by how much the time of day was set or corrected, or the process stood still, since the engine was made. Limits
// are not wrong because of it: see docs/limits-cluster.md.
func (e *Engine) LimitClockBehind() time.Duration {
	return time.Duration(e.limits.Clock.Ahead())
}

// Cut moves the partition's new hits and admissions into c, whose memory is used again. With Config.Gather, every hit
// is in exactly one cut: a hit that returned before Cut was called is in this one or an earlier one. With withState,
// c.State is the partition after exactly the hits of all cuts so far and of all Apply calls. The partition must then be
// held.
//
// It holds the partition's lock for O(deltas), with withState O(keys); nothing else of the engine waits.
//
// Lock order: receipts, then shards of counters in ascending order, then a partition, then its limits. A transaction
// holds shards while it counts hits. So the counters are cut before the partition is locked: one cut may have the hits of
// a transaction, and the next its counters.
func (e *Engine) Cut(partition int, c *replication.Cut, withState bool) {
	changed, all := e.counters.Cut(partition, nil, withState)
	e.keys.Cut(partition, c, withState, func(w *replication.StateWriter) {
		c.Changes, c.Admissions = changed, c.Admissions[:0]
		e.limits.Cut(partition, c, w, all)
	})
}

// TakePast accepts hits that are older than the retention, for history and for no window. keeps reports whether history
// keeps the day of such a second for a key. The hits are in Cut.Past.
func (e *Engine) TakePast(keeps func(key string, second int64) bool) { e.past.Store(&keeps) }

// An engine may hold some of its partitions only, while others are held by the
// engines of other nodes. What is kept of limits where one is not, internal/engine/admission says.

// Release lets a partition go: its windows are forgotten, and of its hits only those are kept that no cut has yet. Only
// for an engine with Config.Gather, whose journal has the others. O(keys), under the partition's lock.
func (e *Engine) Release(partition int) {
	if e.keys.Holds(partition) {
		e.keys.Release(partition)
	}
}

// Hold takes a partition back that was released. s is what Take returned in an engine with the same settings. then is what
// the journal has after s, in order. Hits that no cut has yet are kept too. What keys have used of limits is kept
// whether their partition is held or not. Questions are answered once all is there. Hold must not run at the same time
// as Cut. It refuses windows that can't be merged; the partition then stays
// released.
func (e *Engine) Hold(partition int, s replication.State, then []replication.Followed) error {
	if e.keys.Holds(partition) {
		return fmt.Errorf("partition %d is held already", partition)
	}
	err := e.keys.Hold(partition, s, then)
	if err != nil {
		e.keys.Release(partition)
	}
	return err
}

// ConfirmChanges takes in the changes of a cut, as they come back from the journal.
func (e *Engine) ConfirmChanges(list []replication.Change) { e.counters.Apply(list, true) }

// ApplyChanges makes changes to counters and to what keys have used of limits that come from a journal, in their order. They are not
// gathered again.
func (e *Engine) ApplyChanges(partition int, list []replication.Change) error {
	e.counters.Apply(list, false)
	return e.limits.ApplyChanges(partition, list)
}

// LoadState puts a state that Cut made into a partition that has had no hits. A partition that was released only takes
// what keys have used of limits. A damaged state is refused, and so is a state of an engine with other partitions or
// another retention. The partition then stays empty.
//
// The time of day was set forward by set since: what keys have used of their limits was used later by as much.
func (e *Engine) LoadState(partition int, state []byte, set time.Duration) error {
	s, err := e.decodeState(partition, state)
	if err != nil {
		return err
	}
	s.SetForward(set)
	return e.install(partition, s)
}

// LoadHits is LoadState without what keys have used of their limits: for an engine that shows what
// another counts, and decides nothing.
func (e *Engine) LoadHits(partition int, state []byte) error {
	s, err := e.decodeState(partition, state)
	if err != nil {
		return err
	}
	s.Limits, s.Changes = nil, nil
	return e.install(partition, s)
}

func (e *Engine) restoreLimits(partition int, s *replication.State) error {
	e.counters.Apply(s.Changes, false)
	return e.limits.Restore(partition, s.Limits, s.Changes)
}

// install puts a state into a partition that has had no hits.
func (e *Engine) install(partition int, s replication.State) error {
	if !e.keys.Holds(partition) {
		return e.restoreLimits(partition, &s)
	}
	if e.keys.HasKeys(partition) {
		return fmt.Errorf("partition %d has keys already: a state is loaded before the first hit", partition)
	}
	if err := e.restoreLimits(partition, &s); err != nil {
		return err
	}
	// before the windows are the partition's, and change
	for i := range s.Quarantined {
		if s.Quarantined[i].Key == AllKeys {
			if err := e.total.merge(&s.Quarantined[i].Window); err != nil {
				return err
			}
		}
	}
	if err := e.total.merge(&s.Total); err != nil {
		return err
	}
	e.evicted.merge(s.Evicted)
	return e.keys.Install(partition, s)
}

// decodeState reads a state, and checks that it is one of this engine's partition.
func (e *Engine) decodeState(partition int, state []byte) (s replication.State, err error) {
	s, err = replication.ReadState(state)
	switch {
	case err != nil:
	case s.Partitions != e.cfg.Partitions:
		err = fmt.Errorf("the state is of an engine with %d partitions, this one has %d: their number can't be changed", s.Partitions, e.cfg.Partitions)
	case s.Partition != partition:
		err = fmt.Errorf("%w: of partition %d in place of %d", replication.ErrDamagedState, s.Partition, partition)
	case s.Retention != e.cfg.Retention:
		err = fmt.Errorf("the state was kept with a retention of %v, not %v: the retention of existing data can't be changed", s.Retention, e.cfg.Retention)
	}
	return s, err
}

// MergeWindows adds windows from a journal to the windows of a partition that is held. They are not gathered. As with
// Apply, if an own removal of a key is on its way, the key's windows count only for AllKeys.
func (e *Engine) MergeWindows(partition int, list []replication.KeyWindow) error {
	errs := []error{e.keys.MergeWindows(partition, list)}
	for i := range list {
		if list[i].Key == "" {
			errs = append(errs, e.mergeTotal(&list[i].Window))
		}
	}
	return errors.Join(errs...)
}

// mergeTotal merges a window of all keys into AllKeys' own counter.
func (e *Engine) mergeTotal(w *window.Window) error {
	w, err := e.keys.KeptWindow(w)
	if err != nil {
		return err
	}
	return e.total.merge(w)
}

// MergeEvicted adds hits of evicted keys that come from a journal.
func (e *Engine) MergeEvicted(partition int, list []replication.Evicted) {
	e.evicted.merge(list)
	e.keys.MergeEvicted(partition, list)
}

// Apply counts deltas from a journal: from an earlier life of this process or from another node. They are not gathered
// again. Deltas of a second that has not come, by the wall clock and MaxAhead, count where they belong and change
// nothing else: see Stats.Ahead.
//
// The journal's order holds for all nodes. Own hits and removals are in this engine before they are in the journal. If
// an own removal of a key is still on its way (see Confirm), a hit applied meanwhile was before the removal. It counts
// only for AllKeys. An applied removal does not take own hits that are on their way. own returns the hits of a key that
// were cut, with the removals between them, in order. nil: there are none.
func (e *Engine) Apply(partition int, deltas []replication.Delta, own func(key string) []replication.Delta) {
	e.keys.Apply(partition, deltas, own)
	keyspace.EachSecond(deltas, e.total.settle)
}

// Retract takes own hits of a batch back, because the journal has them from another node already. deltas are these hits
// and all removals of the batch, in order. Hits before an own removal of their key count only for AllKeys. That removal
// may be in deltas, in a later batch, or not cut yet. Retract comes before Confirm of the removals in deltas.
func (e *Engine) Retract(partition int, deltas []replication.Delta) {
	e.keys.Retract(partition, deltas)
	keyspace.EachSecond(deltas, e.total.retract)
}

// evictedOfAll are the hits that AllKeys lacks, of all partitions that were loaded or merged:
// of use while all are held.
type evictedOfAll struct {
	mu  sync.Mutex // of the goroutines that add
	all replication.SketchHits
}

func (s *evictedOfAll) merge(list []replication.Evicted) {
	for _, f := range list {
		if f.Place == replication.EvictedOfAll {
			s.mu.Lock()
			s.all.Add(f.Hits, f.Newest)
			s.mu.Unlock()
		}
	}
}
