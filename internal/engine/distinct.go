package engine

import (
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/weir-counter/weir/internal/distinct"
)

// HashID is what is kept of an id, such as a visitor. It is kept on disk: each build must have the same.
func HashID(id string) uint64 { return xxhash.Sum64String(id) }

// MaxIDBytes is the longest id.
const MaxIDBytes = 512

// HitDistinct is HitExpected of n hits that carry an id (HashID).
//
// Cost: the partition's lock twice, and some microseconds for a key with many ids.
func (e *Engine) HitDistinct(at time.Time, key Expected, n, id uint64) (Outcome, error) {
	outcome, err := e.HitExpected(at, key, n)
	if err == nil && (outcome == Counted || outcome == Late || outcome == ForHistory) && at.Unix() <= distinct.MaxSecond {
		e.keys.AddID(key.Key(), at.Unix(), id, outcome == ForHistory)
	}
	return outcome, err
}

// AddDistinct adds all ids of a set to a key, without a hit.
func (e *Engine) AddDistinct(key string, set *distinct.Set) error {
	if err := e.check(key, 1); err != nil {
		return err
	}
	e.keys.AddIDs(key, set)
	return nil
}

// Distinct returns a copy of the ids of a key; nil: it has none. An evicted key of that name may have had gone hits in
// the window, and so as many ids more. It fails if the key's partition is not held.
func (e *Engine) Distinct(at time.Time, key string, w time.Duration) (set *distinct.Set, gone uint64, err error) {
	seconds, err := e.checkRead(key, w)
	if err != nil {
		return nil, 0, err
	}
	held := e.keys.WhileHeld(nil, key, func() { set, gone = e.keys.IDs(key, at.Unix()-seconds) })
	return set, gone, ifHeld(held)
}
