package keyspace

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/weir-counter/weir/internal/clock"
	"github.com/weir-counter/weir/window"
)

// shared is what the partitions of a keyspace have in common. It knows none of them.
type shared struct {
	gather     bool  // new hits are kept for cuts
	memory     int64 // the budget, bytes
	maxWaiting int64 // entries that may wait for a cut
	clock      *clock.Clock
	empty      window.Window // of the engine's retention
	seed       maphash.Seed  // of the tables; not of the partitions
	hot        hotKeys
	waiting    waiting

	_         [64]byte // each hit reads what is before and after, and must not wait for the line of what changes
	departed  departures
	keys      atomic.Int64
	bytes     atomic.Int64 // of tables, entries and windows
	pastUntil atomic.Int64 // Unix ms until which hits were taken for history alone (past.go)
	passing   atomic.Int64 // of these: keys of partitions that are not held
	_         [64]byte
}

// departures count keys that left, and the hits that evicted keys had.
type departures struct{ evictedKeys, evictedHits, expiredKeys atomic.Uint64 }

// hash places a key in its partition's table. It is seeded: nobody can choose
// keys that collide.
func (s *shared) hash(key string) uint64 { return maphash.String(s.seed, key) }

// overBudget tells whether the keys that are held take more than the budget. Those that
// pass through do not count: no key is evicted for their sake.
func (s *shared) overBudget() bool {
	return s.bytes.Load()-s.passing.Load() > s.memory
}
