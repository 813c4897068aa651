package weir

import (
	"math"
	"math/bits"
	"time"
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
	err = e.whileHeld(nil, key, func() {
		h := e.horizon()
		at := h.second + h.retention
		c = h.limits(e.countIn(nil, key, at, seconds), at, seconds)
	})
	return c, err
}

// CountAt answers how many hits the key has in (at-w, at]; at may lie in the
// past. If at has a fraction of a second, the two seconds that the window cuts
// are in doubt, and the bounds say so.
//
// Cost: a look-up, the partition's lock, and O(1), or up to some 200 pairs for a
// sparse key.
func (e *Engine) CountAt(at time.Time, key string, w time.Duration) (Count, error) {
	return e.replication.CountIn(nil, at, key, w)
}

// CountIn is CountAt; of AllKeys, it counts the hits of some partitions that a cut
// has.
func (r *Replication) CountIn(in PartitionSet, at time.Time, key string, w time.Duration) (Count, error) {
	e := r.engine
	seconds, err := e.checkRead(key, w)
	if err != nil {
		return Count{}, err
	}
	var c Count
	err = e.whileHeld(in, key, func() {
		h := e.horizon()
		c = countAt(at, seconds, func(at, seconds int64) Count { return h.limits(e.countIn(in, key, at, seconds), at, seconds) })
	})
	return c, err
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
func (e *Engine) countIn(in PartitionSet, key string, at, seconds int64) Count {
	if key == AllKeys && (in != nil || e.holding.parted.Load()) {
		return e.countPartitions(in, at, seconds)
	}
	return e.count(key, at, seconds)
}

func (e *Engine) count(key string, at, seconds int64) Count {
	if key == AllKeys {
		return e.total.count(at, seconds).Plus(Count{Upper: e.forgotten.all.since(at - seconds)})
	}
	p, hash := e.partition(key), e.hash(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	var c Count
	if en := p.table.Load().find(hash, key); en != nil {
		c = p.count(e, en, at, seconds)
	} else if !p.ahead.empty() {
		c = p.ahead.count(key, at, seconds)
	}
	return p.withForgotten(c, key, at-seconds)
}

// withForgotten raises the upper bound by what an evicted key of that name may
// have had since the second from.
func (p *partition) withForgotten(c Count, key string, from int64) Count {
	sum, carry := bits.Add64(c.Upper, p.forgotten.since(key, from), 0)
	if carry != 0 {
		sum = math.MaxUint64
	}
	c.Upper = sum
	return c
}
