// Package adapter lets Weir, and the libraries that answer for a window, be
// measured as the textbook designs are.
package adapter

import (
	"fmt"
	"time"

	"github.com/paulbellamy/ratecounter"
	"github.com/weir-counter/weir"
)

// Counter is a [weir.Counter] as a textbook.Counter.
type Counter struct{ Weir *weir.Counter }

// Hit implements textbook.Counter.
func (c Counter) Hit(at int64) {
	if outcome, err := c.Weir.HitAt(time.Unix(at, 0), 1); err != nil || outcome == weir.TooLate {
		panic(fmt.Sprint("hit not counted: ", outcome, err)) // a mistake of the benchmark
	}
}

// Count implements textbook.Counter with the estimate.
func (c Counter) Count(at, seconds int64) int64 {
	count, err := c.Weir.CountAt(time.Unix(at, 0), time.Duration(seconds)*time.Second)
	if err != nil {
		panic(err) // a mistake of the benchmark
	}
	return int64(count.Estimate)
}

// Key is one key of a [weir.Engine] as a textbook.Counter.
type Key struct {
	Engine *weir.Engine
	Key    string
}

// Hit implements textbook.Counter.
func (k Key) Hit(at int64) {
	if outcome, err := k.Engine.HitAt(time.Unix(at, 0), k.Key, 1); err != nil || outcome == weir.TooLate {
		panic(fmt.Sprint("hit not counted: ", outcome, err)) // a mistake of the benchmark
	}
}

// Count implements textbook.Counter with the estimate.
func (k Key) Count(at, seconds int64) int64 {
	count, err := k.Engine.CountAt(time.Unix(at, 0), k.Key, time.Duration(seconds)*time.Second)
	if err != nil {
		panic(err) // a mistake of the benchmark
	}
	return int64(count.Estimate)
}

// RateCounter is a [ratecounter.RateCounter] as a textbook.Counter. It goes by
// the wall clock whatever the times given, and has one window.
type RateCounter struct{ Peer *ratecounter.RateCounter }

// Hit implements textbook.Counter.
func (r RateCounter) Hit(int64) { r.Peer.Incr(1) }

// Count implements textbook.Counter for the counter's own window.
func (r RateCounter) Count(int64, int64) int64 { return r.Peer.Rate() }
