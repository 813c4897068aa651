package grant

import (
	"time"

	"github.com/weir-counter/weir/limit"
)

// Terms are what a limit's interval makes of its grants.
type Terms struct {
	Interval time.Duration // T of the limit
	Life     time.Duration // of a grant, from its last answer
	Pace     time.Duration // how often a node asks for a key that is asked for all the time
	Most     uint64        // that a node may have: a quarter of the burst
}

const (
	shortestLife, longestLife = time.Second, 10 * time.Second
	shortestPace, longestPace = 5 * time.Millisecond, time.Second

	// longestPause is how long a node denies by what the holder said: then it may have more, since
	// limits change.
	longestPause = 2 * time.Second

	// paces are how many there are in an interval: what is free at the holder, or at a node that
	// has no use for it, is free for about half a pace.
	paces = 20

	// longerPeriod is more than by how much one period of a calendar is longer than another.
	longerPeriod = 5 * 24 * time.Hour

	// hot is from how many admissions per pace on a node asks for a grant.
	hot = 4
)

// TermsOf are those of a limit that limit.New takes, with its burst filled in.
func TermsOf(l limit.Limit) Terms {
	interval := l.Interval()
	if l.Calendar.Unit != limit.NoUnit {
		interval += longerPeriod
	}
	return Terms{
		Interval: interval,
		Life:     min(max(interval/8, shortestLife), longestLife),
		Pace:     min(max(interval/paces, shortestPace), longestPace),
		Most:     l.Burst / 4,
	}
}

// Margin is by how much longer the holder takes a grant to last: the clocks of two nodes may run by
// a part in 64 apart.
func (t Terms) Margin() time.Duration { return t.Life/rateError + time.Millisecond }

// rateError is one part in how many a clock may run too fast or too slowly.
const rateError = 64

// Held is for how long what is out counts, from the last answer: until T after the grant's end.
func (t Terms) Held() time.Duration { return t.Life + t.Margin() + t.Interval }

// MaxOut is how much of one key may be out, as far as one number of the journal tells it: more than
// limit.MaxRate admits for as long as it counts.
func (t Terms) MaxOut() uint64 { return uint64(t.Held()/time.Microsecond) - 1 }

// Lends tells whether parts of a limit are lent at all: not of one whose T is longer than a year,
// less a day for what Held adds.
func (t Terms) Lends() bool { return t.Interval <= limit.MaxPer-24*time.Hour }
