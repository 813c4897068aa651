// Package partial is the side of a weir.Engine that answers questions about some of its
// partitions: a node of a cluster asks others for the parts of an answer that they hold, and
// merges them. Package weir implements it.
package partial

import (
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/friend"
	"github.com/weir-counter/weir/internal/replication"
)

// Engine answers about partitions that it holds; of others it is an error of CodeNotHeld.
type Engine interface {
	// CountIn is weir.Engine.CountAt; of AllKeys, it counts the hits of some partitions that
	// a cut has.
	CountIn(in replication.PartitionSet, at time.Time, key string, w time.Duration) (weir.Count, error)

	// SeriesIn is weir.Engine.Series; of AllKeys, it counts the hits of some partitions that
	// a cut has.
	SeriesIn(in replication.PartitionSet, key string, from, to time.Time, step time.Duration) ([]weir.Point, error)

	// TopIn is weir.Engine.Top of the keys of some partitions.
	TopIn(in replication.PartitionSet, at time.Time, w time.Duration, n int, prefix string) ([]weir.KeyCount, error)

	// KeysIn is weir.Engine.Keys of some partitions.
	KeysIn(in replication.PartitionSet, prefix, after string, limit int) ([]string, error)

	// LimitKeysIn is Keys of a limit of the engine, of some partitions, all of which must be
	// held: of others this engine does not know what the keys used of a shared limit.
	LimitKeysIn(in replication.PartitionSet, of *weir.KeyedLimit, most int) ([]weir.KeyUse, error)
}

// Of is that side of an engine.
func Of(engine *weir.Engine) Engine { return friend.Side(engine) }
