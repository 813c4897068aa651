package weir

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/window"
)

// side is what an Engine shows to other packages of this module, and not to its users. Its
// methods are described where they are asked for: internal/engine/replication, internal/engine/side
// and internal/engine/side.
type side struct{ engine *Engine }

// engineSide has an unexported name, so that the methods of Engine are those for its users.
type engineSide = replication.SideOf[*side]

func (r *side) PartitionOf(key string) int { return r.engine.keys.PartitionOf(key) }

func (r *side) Holds(partition int) bool { return r.engine.keys.Holds(partition) }

func (r *side) HoldsKey(key string) bool { return r.engine.keys.HoldsKey(key) }

func (r *side) HeldPartitions() replication.PartitionSet {
	k := r.engine.keys
	s := replication.NewPartitionSet(r.engine.cfg.Partitions)
	for i := range r.engine.cfg.Partitions {
		if k.Holds(i) {
			s.Add(i)
		}
	}
	return s
}

func (r *side) Wall() time.Time { return r.engine.clock.Wall.Time() }

func (r *side) UncorrectedWall() time.Time { return r.engine.clock.Wall.Raw() }

func (r *side) CorrectClock(by time.Duration) { r.engine.clock.Wall.Correct(by) }

func (r *side) ClockCorrection() time.Duration {
	return r.engine.clock.Wall.Corrected()
}

func (r *side) LimitClockBehind() time.Duration {
	return time.Duration(r.engine.limits.Clock.Ahead())
}

func (r *side) Cut(partition int, c *replication.Cut, withState bool) {
	e := r.engine
	e.keys.Cut(partition, c, withState, func(w *replication.StateWriter) {
		c.Admissions = e.limits.Cut(partition, c.Admissions[:0], w)
	})
}

func (r *side) Confirm(partition int, key string) { r.engine.keys.Confirm(partition, key) }

func (r *side) BoundWaiting(bytes int64, why string) { r.engine.keys.BoundWaiting(bytes, why) }

func (r *side) TakePast(keeps func(key string, second int64) bool) { r.engine.past.Store(&keeps) }

func (r *side) NotePast(until int64) { r.engine.keys.NotePast(until) }

func (r *side) PastUntil() int64 { return r.engine.keys.PastUntil() }

func (r *side) Crowded() bool { return r.engine.keys.Crowded() }

func (r *side) RefuseTakes(why string) { r.engine.limits.RefuseTakes(why) }

// An engine may hold some of its partitions only, while others are held by the
// engines of other nodes. What is kept of limits where one is not, internal/engine/admission says.

func (r *side) Release(partition int) {
	if r.Holds(partition) {
		r.engine.release(partition)
	}
}

func (e *Engine) release(partition int) {
	e.keys.Release(partition)
}

func (r *side) Hold(partition int, state []byte, then []replication.Followed) error {
	e := r.engine
	if r.Holds(partition) {
		return fmt.Errorf("partition %d is held already", partition)
	}
	s := replication.State{Total: e.keys.EmptyWindow()} // a zero one has another retention
	if state != nil {
		var err error
		if s, err = e.decodeState(partition, state); err != nil {
			return err
		}
	}
	err := e.keys.Hold(partition, s, then)
	if err != nil {
		e.release(partition)
	}
	return err
}

func (r *side) Admissions(c replication.Content) (list []replication.Admission, err error) {
	return r.engine.limits.Admissions(c.Limits)
}

func (r *side) ApplyAdmissions(partition int, list []replication.Admission) error {
	return r.engine.limits.ApplyAll(partition, list)
}

func (r *side) LoadState(partition int, state []byte) error {
	return r.LoadStateSince(partition, state, 0)
}

func (r *side) LoadStateSince(partition int, state []byte, set time.Duration) error {
	s, err := r.engine.decodeState(partition, state)
	if err != nil {
		return err
	}
	s.SetForward(set)
	return r.install(partition, s)
}

func (r *side) LoadHits(partition int, state []byte) error {
	s, err := r.engine.decodeState(partition, state)
	if err != nil {
		return err
	}
	s.Limits = nil
	return r.install(partition, s)
}

// install puts a state into a partition that has had no hits.
func (r *side) install(partition int, s replication.State) error {
	e := r.engine
	if !r.Holds(partition) {
		return e.limits.Restore(partition, s.Limits)
	}
	if e.keys.HasKeys(partition) {
		return fmt.Errorf("partition %d has keys already: a state is loaded before the first hit", partition)
	}
	if err := e.limits.Restore(partition, s.Limits); err != nil {
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
	case s.Partitions != uint64(e.cfg.Partitions):
		err = fmt.Errorf("the state is of an engine with %d partitions, this one has %d: their number can't be changed", s.Partitions, e.cfg.Partitions)
	case s.Partition != uint64(partition):
		err = fmt.Errorf("%w: of partition %d in place of %d", replication.ErrDamagedState, s.Partition, partition)
	case s.Retention != uint64(e.clock.Retention):
		err = fmt.Errorf("the state was kept with a retention of %v, not %v: the retention of existing data can't be changed",
			time.Duration(s.Retention)*time.Second, e.cfg.Retention)
	}
	return s, err
}

func (r *side) MergeWindows(partition int, list []replication.KeyWindow) error {
	e := r.engine
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

func (r *side) MergeEvicted(partition int, list []replication.Evicted) {
	r.engine.evicted.merge(list)
	r.engine.keys.MergeEvicted(partition, list)
}

func (r *side) Clear(partition int, own []replication.Delta, then []replication.Followed) error {
	return r.engine.keys.Clear(partition, own, then)
}

func (r *side) AtOnce(change func()) { r.engine.keys.AtOnce(change) }

func (r *side) Apply(partition int, deltas []replication.Delta, own func(key string) []replication.Delta) {
	r.ApplyOwn(partition, deltas, own)
	keyspace.EachSecond(deltas, r.engine.total.settle)
}

func (r *side) ApplyOwn(partition int, deltas []replication.Delta, own func(key string) []replication.Delta) {
	r.engine.keys.Apply(partition, deltas, own)
}

func (r *side) Retract(partition int, deltas []replication.Delta) {
	r.engine.keys.Retract(partition, deltas)
	keyspace.EachSecond(deltas, r.engine.total.retract)
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
