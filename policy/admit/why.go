package admit

import (
	"time"

	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/limit"
)

// Known appends what this node knows of the admissions that fill the limit of the result at a
// place: see limits.Known, also for raw. It is for right after the decision. elsewhere tells that another
// node decided: this one may know less, or nothing.
func (d *Decision) Known(place int, raw time.Time, list []limit.Admitted) (known []limit.Admitted, doubt time.Duration, elsewhere bool) {
	c := &d.checks[place]
	known, doubt = limits.Known(c.Limit, c.Key, raw, list)
	return known, doubt, d.elsewhere[place] != nil && d.away[place] == ""
}

// At is when it was decided, by the monotonic clock that limits are kept by, in ns; 0 where other nodes had a
// part in it. Two denials by one limit of one key, for which At+RetryAfter, At+Reset and Remaining are the same, were made of the
// same admissions.
func (d *Decision) At() int64 { return d.at }

// Where says which nodes count the limit of the result at a place together.
func (d *Decision) Where(place int) limit.Where { return limits.Where(d.checks[place].Limit) }
