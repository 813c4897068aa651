package weir

import (
	"time"

	"github.com/weir-counter/weir/internal/replication"
)

// Count answers how many hits the key has in the last w, up to Now. A key that
// was never hit has none. AllKeys counts all hits, those of evicted and deleted
// keys too.
//
// Where keys were evicted, Upper includes what a key may have had before. Where
// the window reaches back beyond the retention, no upper bound is known: older
// hits are refused, and those that were taken may have left.
func (e *Engine) Count(key string, w time.Duration) (Count, error) {
	seconds, err := e.checkRead(key, w)
	if err != nil {
		return Count{}, err
	}
	var c Count
	held := e.keys.WhileHeld(nil, key, func() {
		h := e.horizon()
		at := h.second + h.retention
		c = h.limits(e.countIn(nil, key, at, seconds), at, seconds)
	})
	return c, ifHeld(held)
}

// CountAt answers how many hits the key has in (at-w, at]; at may lie in the
// past. If at has a fraction of a second, the two seconds that the window cuts
// are in doubt, and the bounds say so.
//
// Cost: a look-up, the partition's lock, and O(1), or up to some 200 pairs for a
// sparse key.
func (e *Engine) CountAt(at time.Time, key string, w time.Duration) (Count, error) {
	return e.side.CountIn(nil, at, key, w)
}

func (r *side) CountIn(in replication.PartitionSet, at time.Time, key string, w time.Duration) (Count, error) {
	e := r.engine
	seconds, err := e.checkRead(key, w)
	if err != nil {
		return Count{}, err
	}
	var c Count
	held := e.keys.WhileHeld(in, key, func() {
		h := e.horizon()
		c = countAt(at, seconds, func(at, seconds int64) Count { return h.limits(e.countIn(in, key, at, seconds), at, seconds) })
	})
	return c, ifHeld(held)
}

// Rate is Count per second of w.
func (e *Engine) Rate(key string, w time.Duration) (Rate, error) {
	c, err := e.Count(key, w)
	return c.Per(int64(w / time.Second)), err
}

// RateAt is CountAt per second of w.
func (e *Engine) RateAt(at time.Time, key string, w time.Duration) (Rate, error) {
	c, err := e.CountAt(at, key, w)
	return c.Per(int64(w / time.Second)), err
}

func (e *Engine) checkRead(key string, w time.Duration) (seconds int64, err error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	return wholeSeconds("window", w)
}

// countIn answers for a valid key and a window of whole seconds, 0 included; of AllKeys,
// for the hits of some partitions.
func (e *Engine) countIn(in replication.PartitionSet, key string, at, seconds int64) Count {
	if key == AllKeys && (in != nil || !e.keys.AllHeld()) {
		return e.keys.CountAll(in, at, seconds)
	}
	return e.count(key, at, seconds)
}

func (e *Engine) count(key string, at, seconds int64) Count {
	if key == AllKeys {
		return e.total.count(at, seconds).Plus(Count{Upper: e.evicted.all.Since(at - seconds)})
	}
	return e.keys.Count(key, at, seconds)
}
