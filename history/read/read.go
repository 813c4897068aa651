// Package read answers from history: totals of a key in adjoining spans of time, such as the days
// of a year. Every total has its bounds: it is exact where all hits until AsOf are known by slots
// that lie within the span.
package read

import (
	"context"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/weir-counter/weir/history/store"
)

// Total is the hits of a span: Lower <= the true number <= Upper, which is math.MaxUint64 where
// no upper bound is known.
type Total struct{ Lower, Upper uint64 }

// Exact tells whether nothing is in doubt.
func (t Total) Exact() bool { return t.Lower == t.Upper && t.HasUpper() }

// HasUpper tells whether an upper bound is known.
func (t Total) HasUpper() bool { return t.Upper != math.MaxUint64 }

// add adds hits that are in the span, or partly in it.
func (t *Total) add(n, doubt uint64, whole bool) {
	if whole {
		t.Lower = sum(t.Lower, n)
	}
	t.Upper = sum(t.Upper, sum(n, doubt))
}

func sum(a, b uint64) uint64 {
	if a > ^b {
		return math.MaxUint64
	}
	return a + b
}

// Totals answers for the spans between bounds, Unix seconds in order: one fewer than there are
// bounds. keep is for how long rows are kept, and now what that is counted from.
func Totals(ctx context.Context, v *store.View, key string, bounds []int64, keep []store.Keep, now time.Time) ([]Total, error) {
	r := reader{bounds: bounds, totals: make([]Total, len(bounds)-1), slot: int64(v.Slot() / time.Second)}
	if len(v.Journals) == 0 {
		for i := range r.totals {
			r.totals[i].Upper = math.MaxUint64
		}
		return r.totals, nil
	}
	slotsSince, daysSince := kept(key, keep, now)
	slotsSince = max(slotsSince, v.Since())
	first, last := bounds[0], bounds[len(bounds)-1]
	// Days of UTC are read as such as far as they are summed up, but for those within which a span begins or ends, and
	// whose slots are not deleted: where they are many, all slots are read.
	upTo := min(v.Rolled(), (last+store.DaySeconds-1)/store.DaySeconds)
	split := r.splitDays(max(slotsSince, first/store.DaySeconds), upTo)
	if len(split) > int(upTo-max(slotsSince, first/store.DaySeconds))/2 {
		upTo, split = min(upTo, slotsSince), nil
	}
	if first < upTo*store.DaySeconds {
		take := r.take(store.DaySeconds)
		if err := v.Days(ctx, key, first/store.DaySeconds, upTo, func(row store.Row) {
			if !split[row.Day()] {
				take(row)
			}
		}); err != nil {
			return nil, err
		}
	}
	for day := range split {
		if err := v.Slots(ctx, key, day*store.DaySeconds, (day+1)*store.DaySeconds, r.take(r.slot)); err != nil {
			return nil, err
		}
	}
	if from := max(first-first%r.slot, upTo*store.DaySeconds); from < last {
		if err := v.Slots(ctx, key, from, last, r.take(r.slot)); err != nil {
			return nil, err
		}
	}
	for _, g := range v.Gaps() {
		r.doubt(g.First.Unix(), g.Last.Unix())
	}
	r.doubt(0, daysSince*store.DaySeconds-1)
	return r.totals, nil
}

// Keeps tells whether the day of a second, Unix, is kept of a key. It is what a hit must be asked that is too
// late for windows.
func Keeps(key string, second int64, keep []store.Keep, now time.Time) bool {
	_, days := kept(key, keep, now)
	return second/store.DaySeconds >= days
}

// kept are the first days whose slots, and that themselves, are not deleted.
func kept(key string, keep []store.Keep, now time.Time) (slots, days int64) {
	longest := -1
	for _, k := range keep {
		if len(k.Prefix) <= longest || !strings.HasPrefix(key, k.Prefix) {
			continue
		}
		longest, slots, days = len(k.Prefix), 0, 0
		if k.Slots > 0 {
			slots = now.Add(-k.Slots).Unix()/store.DaySeconds + 1
		}
		if k.Days > 0 {
			days = now.Add(-k.Days).Unix()/store.DaySeconds + 1
		}
	}
	return max(slots, 0), max(days, 0)
}

// reader adds up rows.
type reader struct {
	bounds []int64
	totals []Total
	slot   int64
}

// splitDays are the days from one to before another within which a span begins or ends.
func (r *reader) splitDays(from, to int64) map[int64]bool {
	days := map[int64]bool{}
	for _, at := range r.bounds {
		if day := at / store.DaySeconds; at%store.DaySeconds != 0 && day >= from && day < to {
			days[day] = true
		}
	}
	return days
}

// take takes rows that are so many seconds wide.
func (r *reader) take(width int64) func(store.Row) {
	return func(row store.Row) {
		for i := r.spanOf(row.Slot); i < len(r.totals) && r.bounds[i] < row.Slot+width; i++ {
			r.totals[i].add(row.N, row.Doubt, r.bounds[i] <= row.Slot && row.Slot+width <= r.bounds[i+1])
		}
	}
}

// spanOf is the first span that ends after a moment.
func (r *reader) spanOf(at int64) int {
	return sort.Search(len(r.totals), func(i int) bool { return r.bounds[i+1] > at })
}

// doubt says that spans may lack hits of a time, both ends included.
func (r *reader) doubt(first, last int64) {
	for i := r.spanOf(first); i < len(r.totals) && r.bounds[i] <= last; i++ {
		r.totals[i].Upper = math.MaxUint64
	}
}
