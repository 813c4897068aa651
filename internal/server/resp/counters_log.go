package resp

import (
	"errors"
	"slices"
	"sort"
)

// TimeLog is the times of a key's requests, earliest first: what scripts of sliding windows keep in a sorted set or in a
// list. The unit is the script's.
type TimeLog struct{ times []float64 }

// maxLogTimes bounds a log: a request copies it at most twice.
const maxLogTimes = 1 << 16

// errLogFull is the error of a log with more times.
var errLogFull = errors.New("a log of times has at most 65536")

// logBytes is the memory of a log without its times.
const logBytes = 32

// bytes is its memory.
func (l *TimeLog) bytes() int64 {
	if l == nil {
		return 0
	}
	return logBytes + int64(cap(l.times))*8
}

// after returns the times after t.
func (l *TimeLog) after(t float64) []float64 {
	if l == nil {
		return nil
	}
	return l.times[sort.Search(len(l.times), func(i int) bool { return l.times[i] > t }):]
}

// from returns the times from t on.
func (l *TimeLog) from(t float64) []float64 {
	if l == nil {
		return nil
	}
	i, _ := slices.BinarySearch(l.times, t)
	return l.times[i:]
}

// SetLog has a key hold times, earliest first, of which the table keeps a copy, until expires. The error is ErrCountersFull or
// errLogFull: the key is as before. Without times the key is removed. The caller holds the shard of the key; times may be part of its log,
// with what was appended or inserted there.
func (v *CounterView) SetLog(now int64, key []byte, times []float64, expires int64) error {
	s, locked := v.lock(key)
	defer s.unlock(locked)
	t := v.table
	c := t.find(s, now, key)
	if len(times) == 0 {
		if c != nil {
			t.remove(s, string(key))
		}
		return nil
	}
	if len(times) > maxLogTimes {
		return errLogFull
	}
	log := &TimeLog{}
	fits := c != nil && c.Log != nil && cap(c.Log.times) >= len(times)
	if !fits || cap(c.Log.times) > 4*len(times)+16 {
		room := len(times) + len(times)/4 // so that most requests find room
		bytes := logBytes + int64(room)*8
		switch err := t.reserve(s, now, bytes); {
		case err == nil:
			defer t.used.Add(-bytes) // put counts them
			log.times = append(make([]float64, 0, room), times...)
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
	}
	t.put(c, Counter{Log: log, Expires: expires})
	return nil
}
