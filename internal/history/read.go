package history

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history/store"
)

// addTo adds hits that are in the span of a total, or partly in it.
func addTo(t *engine.Count, n, doubt uint64, whole bool) {
	if whole {
		t.Lower = sum(t.Lower, n)
	}
	t.Upper = sum(t.Upper, sum(n, doubt))
}

// sum is math.MaxUint64 if it would be more.
func sum(a, b uint64) uint64 {
	if a > ^b {
		return math.MaxUint64
	}
	return a + b
}

// Totals returns the hits of a key in each span between bounds, Unix seconds in order. A total is exact if all hits are known by
// slots within its span. keep is for how long rows are kept before now. What sampling added is in doubt.
func Totals(ctx context.Context, v *store.View, key string, bounds []int64, keep []store.Keep, now time.Time) ([]engine.Count, error) {
	all, err := totalsOf(ctx, v, key, bounds, keep, now)
	if err != nil {
		return nil, err
	}
	companion := engine.SampledPrefix
	if key != engine.AllKeys {
		companion += key
	}
	added, err := totalsOf(ctx, v, companion, bounds, keep, now)
	for i, more := range added {
		if more.Lower > 0 || more.HasUpper() && more.Upper > 0 {
			all[i].Lower -= min(all[i].Lower, more.Upper)
			all[i].Upper = math.MaxUint64
		}
	}
	return all, err
}

// Unions returns the different ids of a key in each span between bounds. A day of which slots are deleted, and which is partly in a
// span, is in Upper only.
func Unions(ctx context.Context, v *store.View, key string, bounds []int64, keep []store.Keep, now time.Time) ([]api.Distinct, error) {
	r := reader{bounds: bounds, totals: make([]engine.Count, len(bounds)-1)}
	sure, perhaps := make([]*distinct.Set, len(r.totals)), make([]*distinct.Set, len(r.totals))
	take := func(begins, wide int64, set *distinct.Set) {
		for i := r.spanOf(begins); i < len(r.totals) && bounds[i] < begins+wide; i++ {
			to := &perhaps[i]
			if bounds[i] <= begins && begins+wide <= bounds[i+1] {
				to = &sure[i]
			}
			if *to == nil {
				*to = distinct.New(1)
			}
			(*to).Merge(set)
		}
	}
	slotsSince, daysSince := kept(key, keep, now)
	slotsSince = max(slotsSince, v.Since)
	first, last := bounds[0]/store.DaySeconds, (bounds[len(bounds)-1]+store.DaySeconds-1)/store.DaySeconds
	split := r.splitDays(max(first, slotsSince), last)
	err := v.IDs(ctx, key, first*store.DaySeconds, last*store.DaySeconds, true, func(begins, wide int64, set *distinct.Set) {
		if !split[begins/store.DaySeconds] {
			take(begins, wide, set)
		}
	})
	for day := range split {
		err = cmp.Or(err, v.IDs(ctx, key, day*store.DaySeconds, (day+1)*store.DaySeconds, false, take))
	}
	since, failed := v.IDsSince(ctx)
	if err = cmp.Or(err, failed); err != nil {
		return nil, err
	}
	if len(v.Journals) == 0 {
		since = math.MaxInt64
	}
	for _, g := range v.Gaps {
		r.doubt(g.First.Unix(), g.Last.Unix())
	}
	r.doubt(0, max(daysSince*store.DaySeconds, since)-1)
	all := make([]api.Distinct, len(r.totals))
	for i := range all {
		ids := distinct.New(1)
		if sure[i] != nil {
			ids.Merge(sure[i])
		}
		c := ids.Count(-1)
		all[i] = api.Distinct{Lower: c.Lower, Estimate: c.Estimate, Error: c.Error}
		if perhaps[i] != nil {
			ids.Merge(perhaps[i])
			c = ids.Count(-1)
			all[i].Estimate, all[i].Error = (all[i].Lower+c.Upper)/2, c.Error
		}
		if r.totals[i].HasUpper() {
			all[i].Upper = &c.Upper
		}
	}
	return all, nil
}

func totalsOf(ctx context.Context, v *store.View, key string, bounds []int64, keep []store.Keep, now time.Time) ([]engine.Count, error) {
	r := reader{bounds: bounds, totals: make([]engine.Count, len(bounds)-1), slot: int64(v.Slot / time.Second)}
	if len(v.Journals) == 0 {
		for i := range r.totals {
			r.totals[i].Upper = math.MaxUint64
		}
		return r.totals, nil
	}
	slotsSince, daysSince := kept(key, keep, now)
	slotsSince = max(slotsSince, v.Since)
	first, last := bounds[0], bounds[len(bounds)-1]
	// Days of UTC that are summed up are read as such. Days within which a span begins or ends are read by slots if these are not
	// deleted. If there are many such days, all slots are read.
	upTo := min(v.Rolled, (last+store.DaySeconds-1)/store.DaySeconds)
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
	for _, g := range v.Gaps {
		r.doubt(g.First.Unix(), g.Last.Unix())
	}
	r.doubt(0, daysSince*store.DaySeconds-1)
	for i := range r.totals {
		t := &r.totals[i]
		if t.Estimate = t.Lower; t.HasUpper() {
			t.Estimate += (t.Upper - t.Lower) / 2
		}
	}
	return r.totals, nil
}

// Keeps reports whether the day of a second, Unix, is kept of a key: windows do not have a hit that is too late for them.
func Keeps(key string, second int64, keep []store.Keep, now time.Time) bool {
	_, days := kept(key, keep, now)
	return second/store.DaySeconds >= days
}

// kept returns the first day whose slots, and the first day whose sum, are not deleted.
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
	totals []engine.Count
	slot   int64
}

// splitDays returns the days in [from, to) within which a span begins or ends.
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
			addTo(&r.totals[i], row.N, row.Doubt, r.bounds[i] <= row.Slot && row.Slot+width <= r.bounds[i+1])
		}
	}
}

// spanOf is the first span that ends after a moment.
func (r *reader) spanOf(at int64) int {
	return sort.Search(len(r.totals), func(i int) bool { return r.bounds[i+1] > at })
}

// doubt notes that spans may lack hits of a time, both ends included.
func (r *reader) doubt(first, last int64) {
	for i := r.spanOf(first); i < len(r.totals) && r.bounds[i] <= last; i++ {
		r.totals[i].Upper = math.MaxUint64
	}
}

// Ranking asks for the N keys with the most hits in [From, To), Unix seconds, of those that begin with Prefix.
type Ranking struct {
	Prefix   string
	From, To int64
	N        int
}

// Top returns the keys with the most hits, by their lower bounds, most first. No other key has more; of keys with as many as the
// last one, any may be there.
//
// Sums of months and years are lists of keys by hits. Keys from the top of each list that touches the time are counted in the time
// itself, from ever further down. A key outside these tops has at most the sum of the last entries of the tops. The search ends when
// that is no more than the last key of the answer has (the threshold algorithm of Fagin, Lotem and Naor).
func Top(ctx context.Context, v *store.View, ranking Ranking, keep []store.Keep, now time.Time) ([]engine.KeyCount, error) {
	from, to := ranking.From/store.DaySeconds, (ranking.To+store.DaySeconds-1)/store.DaySeconds
	lists, err := v.ListsOf(ctx, from, to, slotsSince(keep, now))
	if err != nil {
		return nil, err
	}
	pick := store.Pick{Prefix: ranking.Prefix, Without: engine.AllKeys, WithoutPrefix: engine.SeparatePrefix}
	if strings.HasPrefix(ranking.Prefix, engine.SeparatePrefix) {
		pick.WithoutPrefix = ""
	}
	var top []engine.KeyCount
	counted := map[string]bool{}
	for deep := 2 * ranking.N; ; deep *= deeper {
		var found []string
		most := uint64(0) // that a key has which is in none of the tops
		for _, list := range lists {
			rest, err := v.Top(ctx, list, pick, deep, func(key string) {
				if !counted[key] {
					counted[key] = true
					found = append(found, key)
				}
			})
			if err != nil {
				return nil, err
			}
			most = sum(most, rest)
		}
		for _, key := range found {
			totals, err := Totals(ctx, v, key, []int64{ranking.From, ranking.To}, keep, now)
			if err != nil {
				return nil, err
			}
			if totals[0].Lower > 0 {
				top = append(top, engine.KeyCount{Key: key, Count: totals[0]})
			}
		}
		slices.SortFunc(top, func(a, b engine.KeyCount) int {
			return cmp.Or(cmp.Compare(b.Lower, a.Lower), cmp.Compare(a.Key, b.Key))
		})
		top = top[:min(ranking.N, len(top))]
		if most == 0 || len(top) == ranking.N && top[ranking.N-1].Lower >= most {
			return top, nil
		}
	}
}

// deeper is the factor by which each look into the lists goes further than the one before.
const deeper = 4

// slotsSince is the first day whose slots are not deleted of any key.
func slotsSince(keep []store.Keep, now time.Time) (day int64) {
	for _, k := range keep {
		slots, _ := kept(k.Prefix, []store.Keep{k}, now)
		day = max(day, slots)
	}
	return day
}
