package resp

import "time"

// clock tells when counters expire, in milliseconds of the Unix epoch.
type clock func() int64

// newClock returns the time of day at the start with what has passed since, so that a clock that
// is set meanwhile lets no counter live for longer or shorter.
func newClock() clock {
	start := time.Now()
	return func() int64 { return start.UnixMilli() + time.Since(start).Milliseconds() }
}
