package weir

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/replication"
)

// MaxPoints is the longest Series.
const MaxPoints = 10_000

// Point is the count of the hits in (At-step, At].
type Point struct {
	At time.Time
	Count
}

// String is the time and its count.
func (p Point) String() string { return p.At.UTC().Format(time.RFC3339) + " " + p.Count.String() }

// Series answers with the counts of consecutive windows of length step, the
// first ending at from+step and the last at or before to: the bars of a chart.
// from is cut to a whole second. Points within the key's newest 511 s are exact;
// the older one is, the wider are the slots at its two ends, up to 1 % of its age
// each, and its bounds say so.
//
// At most MaxPoints, at least one; each costs what a Count does.
func (e *Engine) Series(key string, from, to time.Time, step time.Duration) ([]Point, error) {
	return e.side.SeriesIn(nil, key, from, to, step)
}

func (r *side) SeriesIn(in replication.PartitionSet, key string, from, to time.Time, step time.Duration) ([]Point, error) {
	e := r.engine
	if err := checkKey(key); err != nil {
		return nil, err
	}
	seconds, err := wholeSeconds("step", step)
	if err != nil {
		return nil, err
	}
	n := (to.Unix() - from.Unix()) / seconds
	if n < 1 || n > MaxPoints {
		return nil, &Error{CodeInvalidRange, "step", fmt.Sprintf(
			"from, to and step make %d points: must be 1 to %d", max(n, 0), MaxPoints)}
	}
	points := make([]Point, n)
	held := e.keys.WhileHeld(in, key, func() {
		h := e.horizon()
		for i := range points {
			at := from.Unix() + int64(i+1)*seconds
			points[i] = Point{time.Unix(at, 0), h.limits(e.countIn(in, key, at, seconds), at, seconds)}
		}
	})
	if !held {
		return nil, errNotHeld
	}
	return points, nil
}
