package counters

import "math/bits"

// View is how one client uses a Table. It is for one goroutine.
type View struct {
	table *Table
	held  uint64 // shards, by bit
}

// View returns one.
func (t *Table) View() View { return View{table: t} }

// Shards are where keys are: a set, for Hold.
type Shards uint64

// ShardOf is where a key is.
func (v *View) ShardOf(key []byte) Shards { return 1 << v.table.shardOf(key) }

// Hold makes all that follows one atomic step, for the keys of some shards, until Release. Who
// holds must not wait for anybody.
func (v *View) Hold(of Shards) {
	for rest := uint64(of); rest != 0; rest &= rest - 1 { // in order, so that nobody waits in a circle
		v.table.shards[bits.TrailingZeros64(rest)].mu.Lock()
	}
	v.held = uint64(of)
}

// Release ends Hold.
func (v *View) Release() {
	for rest := v.held; rest != 0; rest &= rest - 1 {
		v.table.shards[bits.TrailingZeros64(rest)].mu.Unlock()
	}
	v.held = 0
}

// lock locks the shard of a key, unless it is held.
func (v *View) lock(key []byte) (s *shard, locked bool) {
	i := v.table.shardOf(key)
	s = &v.table.shards[i]
	if v.held&(1<<i) != 0 {
		return s, false
	}
	s.mu.Lock()
	return s, true
}

func (s *shard) unlock(locked bool) {
	if locked {
		s.mu.Unlock()
	}
}
