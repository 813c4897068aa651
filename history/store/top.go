package store

import (
	"context"
	"time"
)

// List is one that has its keys by hits: of a month or a year, or of a day whose slots are there.
type List struct {
	span, origin int64 // of weir_sums
	day          int64 // of weir_hours, if span is 0
}

// ListsOf are lists that have, together, all hits of the days [from, to), and may have more. Those of days before
// slots have none by the slot.
func (v *View) ListsOf(ctx context.Context, from, to, slots int64) (lists []List, err error) {
	rolled := min(v.Rolled(), to)
	if rolled-from <= daysOfLists && from >= max(slots, v.Since()) { // as near as that, slots are fewer than keys of a month
		rolled = min(rolled, from)
	}
	days, err := v.s.days(ctx, v.tx)
	if err != nil {
		return nil, err
	}
	for _, day := range days {
		if day >= max(from, rolled) && day < to {
			lists = append(lists, List{day: day})
		}
	}
	if from >= rolled {
		return lists, nil
	}
	origins, err := numbers(ctx, v.tx, "SELECT origin FROM weir_origins WHERE complete = 1 ORDER BY origin")
	if err != nil {
		return nil, err
	}
	for _, span := range spansWith(from, rolled) {
		for _, origin := range origins {
			lists = append(lists, List{span: span, origin: origin})
		}
	}
	return lists, nil
}

// daysOfLists and monthsOfLists are up to how many days, and months, are read as such: of more, the next wider spans
// have shorter lists, of which a few more keys are looked at.
const daysOfLists, monthsOfLists = 2, 3

// spansWith are the months, or years, that have all of the days [from, to).
func spansWith(from, to int64) (spans []int64) {
	first, last := time.Unix(from*DaySeconds, 0).UTC(), time.Unix((to-1)*DaySeconds, 0).UTC()
	months := 12*(last.Year()-first.Year()) + int(last.Month()) - int(first.Month()) + 1
	if months <= monthsOfLists {
		for at := time.Date(first.Year(), first.Month(), 1, 0, 0, 0, 0, time.UTC); !at.After(last); at = at.AddDate(0, 1, 0) {
			month, _ := spansOf(at.Unix() / DaySeconds)
			spans = append(spans, month)
		}
		return spans
	}
	for year := first.Year(); year <= last.Year(); year++ {
		spans = append(spans, int64(year))
	}
	return spans
}

// Pick says which keys: those that begin with Prefix, without one, and without those that begin with another prefix, if it is not "".
type Pick struct{ Prefix, Without, WithoutPrefix string }

// Top calls f with the first n keys of a list, most hits first. rest is how many hits each of the others has at most; 0: there are none.
func (v *View) Top(ctx context.Context, l List, of Pick, n int, f func(key string)) (rest uint64, err error) {
	where, args := " AND {key} <> ?", []any{of.Without}
	if of.Prefix != "" { // not by the order of keys: that of hits matters
		where, args = where+" AND SUBSTR({key}, 1, LENGTH(?)) = ?", append(args, of.Prefix, of.Prefix)
	}
	if of.WithoutPrefix != "" {
		where, args = where+" AND NOT ({key} >= ? AND {key} < ?)", append(args, of.WithoutPrefix, prefixEnd(of.WithoutPrefix))
	}
	if l.span == 0 {
		return v.top(ctx, n, f, "SELECT {key}, SUM(n) AS hits FROM weir_hours WHERE day = ?"+where+onlyComplete+" GROUP BY {key} ORDER BY hits DESC LIMIT ?", append(append([]any{l.day}, args...), n)...)
	}
	args = append(append([]any{l.span, l.origin}, args...), n)
	for _, indexed := range []string{" AND n >= 100", ""} { // as the index says, which is without the many that have few hits
		rest, err = v.top(ctx, n, f, "SELECT {key}, n FROM weir_sums WHERE span = ? AND origin = ?"+where+indexed+" ORDER BY n DESC LIMIT ?", args...)
		if err != nil || rest > 0 {
			break
		}
	}
	return rest, err
}

// top calls f with the keys of a query for n of them; rest is what the last one has, if there are as many.
func (v *View) top(ctx context.Context, n int, f func(key string), query string, args ...any) (rest uint64, err error) {
	rows, err := v.tx.QueryContext(ctx, v.s.d.sql(query), args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for found := 1; rows.Next(); found++ {
		var key string
		var hits uint64
		if err := rows.Scan(&key, &hits); err != nil {
			return 0, err
		}
		if f(keyOf(key)); found == n {
			rest = hits
		}
	}
	return rest, rows.Err()
}
