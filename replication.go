package weir

import (
	"time"

	"github.com/weir-counter/weir/internal/friend"
	"github.com/weir-counter/weir/internal/replication"
)

// side is what an Engine shows to other packages of this module, and not to its users. Its
// methods are described where they are asked for: internal/replication, internal/partial
// and internal/limits.
type side struct{ engine *Engine }

// engineSide has an unexported name, so that the methods of Engine are those for its users.
type engineSide = friend.Of[*side]

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
