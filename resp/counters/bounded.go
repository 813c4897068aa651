package counters

import "math"

// Increment is an addition within bounds: INCREX of Redis 8.8.
type Increment struct {
	By           int64
	Lower, Upper int64 // bounds of the sum
	Saturate     bool  // a sum beyond a bound becomes the bound; else nothing is changed

	Expires    int64 // as of a Counter, if SetExpires
	SetExpires bool
	OnlyIfNone bool // it stays if the counter has one
}

// Increase changes a counter by i and returns what it is then, and by how much it changed. What would
// be beyond a bound changes nothing, of the time at which it expires neither, unless it saturates. The
// error is ErrFull.
func (v *View) Increase(now int64, key []byte, i Increment) (value, applied int64, err error) {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	c := v.table.find(s, now, key)
	before := Counter{}
	if c != nil {
		before = *c
	}
	sum, ok := i.sum(before.Value)
	if !ok {
		return before.Value, 0, nil
	}
	after := Counter{sum, before.Expires}
	if i.SetExpires && (!i.OnlyIfNone || before.Expires == 0) {
		after.Expires = i.Expires
	}
	if c == nil {
		if c, err = v.table.add(s, now, key); err != nil {
			return 0, 0, err
		}
	}
	v.table.put(c, after)
	if c.expired(now) {
		v.table.remove(s, string(key))
	}
	return sum, change(before.Value, sum), nil
}

// sum is the value after the increment; not ok: it is beyond a bound.
func (i *Increment) sum(value int64) (sum int64, ok bool) {
	sum, fits := add(value, i.By)
	if !fits {
		if sum = math.MaxInt64; i.By < 0 {
			sum = math.MinInt64
		}
	}
	within := min(max(sum, i.Lower), i.Upper)
	return within, i.Saturate || fits && within == sum
}

// change is to - from, as near as 64 bits are.
func change(from, to int64) int64 {
	d := to - from
	switch {
	case to > from && d < 0:
		return math.MaxInt64
	case to < from && d > 0:
		return math.MinInt64
	}
	return d
}
