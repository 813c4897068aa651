package store

import (
	"context"
	"database/sql"
	"os"
	"slices"
	"time"
)

// View is what a database has at one moment.
type View struct {
	s  *Store
	tx *sql.Tx

	Journals []JournalState
	Gaps     []Gap         // of all journals
	Slot     time.Duration // the width of the widest slots
	Rolled   int64         // the first day that is not in weir_days of all journals
	Since    int64         // the first day whose slots all journals have: others are deleted because of their age or the size of the file
}

// JournalState is how far the history of one journal is.
type JournalState struct {
	Journal string
	Message uint64
	AsOf    time.Time // all hits that were taken until then are in
}

// Of is the state of one journal; zero if it is not in.
func (v *View) Of(journal string) (is JournalState) {
	for _, j := range v.Journals {
		if j.Journal == journal {
			is = j
		}
	}
	return is
}

// View calls f with what is in the database at one moment.
func (s *Store) View(ctx context.Context, f func(v *View) error) error {
	level := sql.LevelRepeatableRead
	if s.d == &sqlite { // whose readers see one moment always
		level = sql.LevelDefault
	}
	tx, err := s.reads().BeginTx(ctx, &sql.TxOptions{Isolation: level, ReadOnly: s.d != &sqlite})
	if err != nil {
		return s.named(err)
	}
	defer func() { _ = tx.Rollback() }() // it wrote nothing
	v := &View{s: s, tx: tx}
	if err := v.readJournals(ctx); err != nil {
		return s.named(err)
	}
	return s.named(f(v))
}

func (v *View) readJournals(ctx context.Context) error {
	if err := scan(ctx, v.tx, "SELECT journal, message, as_of, slot, rolled, since FROM weir_journals ORDER BY journal", nil, func(row *sql.Rows) error {
		var j JournalState
		var asOf, slot, rolled, since int64
		err := row.Scan(&j.Journal, &j.Message, &asOf, &slot, &rolled, &since)
		j.AsOf = time.UnixMilli(asOf)
		if len(v.Journals) == 0 || rolled < v.Rolled {
			v.Rolled = rolled
		}
		v.Slot, v.Since = max(v.Slot, time.Duration(slot)*time.Second), max(v.Since, since)
		v.Journals = append(v.Journals, j)
		return err
	}); err != nil {
		return err
	}
	return scan(ctx, v.tx, "SELECT first, last, why FROM weir_gaps ORDER BY noted, first", nil, func(row *sql.Rows) error {
		var first, last int64
		var g Gap
		err := row.Scan(&first, &last, &g.Why)
		g.First, g.Last = time.Unix(first, 0), time.Unix(last, 0)
		v.Gaps = append(v.Gaps, g)
		return err
	})
}

// onlyComplete leaves out the rows of fillings that have not come to their end.
const onlyComplete = " AND origin IN (SELECT origin FROM weir_origins WHERE complete = 1)"

// Slots calls f with the rows of a key in the slots that begin in [from, to), Unix seconds, in no order. A slot may have several
// rows, which add up.
func (v *View) Slots(ctx context.Context, key string, from, to int64, f func(Row)) error {
	if to <= from {
		return nil
	}
	first, last := from/DaySeconds, (to-1)/DaySeconds
	var days []int64
	if last-first >= daysAtOnce {
		all, err := v.s.days(ctx, v.tx)
		if err != nil {
			return err
		}
		days = slices.DeleteFunc(all, func(day int64) bool { return day < first || day > last })
	} else {
		for day := first; day <= last; day++ {
			days = append(days, day)
		}
	}
	for some := range slices.Chunk(days, daysAtOnce) {
		err := v.rows(ctx, key, f, "SELECT slot, n, doubt FROM weir_hours WHERE {key} = ? AND slot >= ? AND slot < ? AND day IN ("+in(some)+")"+onlyComplete, column(key), from, to)
		if err != nil {
			return err
		}
	}
	return nil
}

// Days is Slots of whole days [from, to), of those that are summed up.
func (v *View) Days(ctx context.Context, key string, from, to int64, f func(Row)) error {
	return v.rows(ctx, key, f, "SELECT day * 86400, n, doubt FROM weir_days WHERE {key} = ? AND day >= ? AND day < ?"+onlyComplete, column(key), from, to)
}

func (v *View) rows(ctx context.Context, key string, f func(Row), query string, args ...any) error {
	return scan(ctx, v.tx, v.s.d.sql(query), args, func(row *sql.Rows) error {
		r := Row{Key: key}
		if err := row.Scan(&r.Slot, &r.N, &r.Doubt); err != nil {
			return err
		}
		f(r)
		return nil
	})
}

// FileSize returns the bytes of a SQLite file without its log; 0 of other databases, and if it is not there.
func (s *Store) FileSize() int64 {
	if s.file == "" {
		return 0
	}
	is, err := os.Stat(s.file)
	if err != nil {
		return 0
	}
	return is.Size()
}

// List has its keys by hits: a month or a year, or a day whose slots are there.
type List struct {
	span, origin int64 // of weir_sums
	day          int64 // of weir_hours, if span is 0
}

// ListsOf returns lists that have, together, all hits of the days [from, to), and may have more. Before the day slots, no slots are
// kept.
func (v *View) ListsOf(ctx context.Context, from, to, slots int64) (lists []List, err error) {
	rolled := min(v.Rolled, to)
	if rolled-from <= daysOfLists && from >= max(slots, v.Since) { // as near as that, slots are fewer than keys of a month
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

// daysOfLists and monthsOfLists are up to how many days, and months, are read as such. Of more, the next wider spans have shorter
// lists, for a few more keys.
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

// Top calls f with the first n keys of a list, most hits first. rest is the most hits that any other key has; 0: there is none.
func (v *View) Top(ctx context.Context, l List, pick Pick, n int, f func(key string)) (rest uint64, err error) {
	where, args := " AND {key} <> ?", []any{pick.Without}
	if pick.Prefix != "" { // not by the order of keys: the order of hits matters
		where, args = where+" AND SUBSTR({key}, 1, LENGTH(?)) = ?", append(args, pick.Prefix, pick.Prefix)
	}
	if pick.WithoutPrefix != "" {
		where, args = where+" AND NOT ({key} >= ? AND {key} < ?)", append(args, pick.WithoutPrefix, prefixEnd(pick.WithoutPrefix))
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
	found := 0
	err = scan(ctx, v.tx, v.s.d.sql(query), args, func(row *sql.Rows) error {
		var key string
		var hits uint64
		if err := row.Scan(&key, &hits); err != nil {
			return err
		}
		f(keyOf(key))
		if found++; found == n {
			rest = hits
		}
		return nil
	})
	return rest, err
}
