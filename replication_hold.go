package weir

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/replication"
)

// An engine may hold some of its partitions only, while others are held by the
// engines of other nodes. What is kept of limits where one is not, internal/admission says.

func (r *side) Release(partition int) {
	if r.Holds(partition) {
		r.engine.release(partition)
	}
}

func (e *Engine) release(partition int) {
	e.keys.Release(partition, func() { e.limits.ReleaseShare(partition) })
}

func (r *side) Hold(partition int, state []byte, then []replication.Followed, admitted []replication.Admission) error {
	return r.HoldSince(partition, state, 0, then, admitted)
}

func (r *side) HoldSince(partition int, state []byte, set time.Duration, then []replication.Followed, admitted []replication.Admission) error {
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
		s.SetForward(set)
	}
	err := e.limits.HoldShare(partition, s.Limits)
	if err == nil {
		err = r.ApplyShared(partition, admitted)
	}
	if err == nil {
		err = e.keys.Hold(partition, s, then)
	}
	if err != nil {
		e.release(partition)
	}
	return err
}
