package weir

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/keyspace"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/internal/sketch"
	"github.com/weir-counter/weir/window"
)

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

func (r *side) Clear(partition int, own []replication.Delta) { r.engine.keys.Clear(partition, own) }

func (r *side) Apply(partition int, deltas []replication.Delta, own func(key string) []replication.Delta) {
	r.ApplyOwn(partition, deltas, own)
	keyspace.EachSecond(deltas, r.engine.total.settle)
}

func (r *side) ApplyOwn(partition int, deltas []replication.Delta, own func(key string) []replication.Delta) {
	r.engine.keys.Apply(partition, deltas, own)
}

// evictedOfAll are the hits that AllKeys lacks, of all partitions that were loaded or merged:
// of use while all are held.
type evictedOfAll struct {
	mu  sync.Mutex // of the goroutines that add
	all sketch.Hits
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
