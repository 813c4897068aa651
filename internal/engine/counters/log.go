package counters

import (
	"errors"
	"slices"
	"sort"
)

// Log has the times of a key's requests, earliest first. Scripts of sliding windows keep them in a sorted set or in
// a list. The script chooses the unit.
type Log struct{ times []float64 }

// MaxLogTimes bounds the times of a log: a request copies them at most twice.
const MaxLogTimes = 1 << 15

// ErrLogFull is the error of a log with more times.
var ErrLogFull = errors.New("a log of times has at most 32768")

// logBytes is the memory of a log without its times.
const logBytes = 32

// bytes returns the memory of the log.
func (l *Log) bytes() int64 {
	if l == nil {
		return 0
	}
	return logBytes + int64(cap(l.times))*8
}

// After returns the times after t.
func (l *Log) After(t float64) []float64 {
	if l == nil {
		return nil
	}
	return l.times[sort.Search(len(l.times), func(i int) bool { return l.times[i] > t }):]
}

// From returns the times from t on.
func (l *Log) From(t float64) []float64 {
	if l == nil {
		return nil
	}
	i, _ := slices.BinarySearch(l.times, t)
	return l.times[i:]
}

// clone returns a copy.
func (l *Log) clone() *Log {
	if l == nil {
		return nil
	}
	return &Log{slices.Clone(l.times)}
}

// SetLog stores a copy of times, earliest first, in a key until expires. After an error (ErrFull or ErrLogFull)
// the key is unchanged. Without times, SetLog removes the key. The caller holds the shard of the key. times may share
// memory with the key's log, with times appended or inserted.
func (v *View) SetLog(now int64, key []byte, times []float64, expires int64) error {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	t := v.table
	c := t.find(s, now, key)
	if len(times) == 0 {
		if c != nil {
			v.Wrote = true
			t.take(s, string(key))
		}
		return nil
	}
	if c != nil && c.Log != nil && c.Expires == expires && slices.Equal(c.Log.times, times) {
		return nil
	}
	if len(times) > MaxLogTimes {
		return ErrLogFull
	}
	if c != nil {
		v.changes(s, c)
	}
	log := &Log{}
	fits := c != nil && c.Log != nil && cap(c.Log.times) >= len(times)
	if !fits || cap(c.Log.times) > 4*len(times)+16 {
		space := len(times) + len(times)/4 // most requests then need no new memory
		bytes := logBytes + int64(space)*8
		switch err := t.reserve(s, now, bytes); {
		case err == nil:
			defer t.used.Add(-bytes) // put counts them
			log.times = append(make([]float64, 0, space), times...)
			fits = false
		case !fits:
			return err
		}
	}
	if fits {
		log.times = append(c.Log.times[:0], times...)
	}
	if c == nil {
		var err error
		if c, err = t.add(s, now, key); err != nil {
			return err
		}
		v.Wrote = true
	}
	t.put(c, Counter{Log: log, Expires: expires})
	return nil
}
