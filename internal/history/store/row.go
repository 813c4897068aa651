package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// DaySeconds is a day of UTC, in seconds.
const DaySeconds = 24 * 3600

// Row is hits of one key in one slot of time, or in the day that Slot lies in.
type Row struct {
	Key   string
	Slot  int64  // Unix second at which it begins
	N     uint64 // at least
	Doubt uint64 // N and this at most
}

// Day is the day of UTC that a row is of, from 1970-01-01 on.
func (r *Row) Day() int64 { return r.Slot / DaySeconds }

// bounded is a row whose numbers the database can add up.
func (r Row) bounded() Row {
	r.N, r.Doubt = min(r.N, most), min(r.Doubt, most)
	return r
}

// columns are a row's key and numbers as the tables have them.
func (r *Row) columns() (key string, n, doubt int64) {
	bounded := r.bounded()
	return column(r.Key), int64(bounded.N), int64(bounded.Doubt)
}

// sortRows puts rows in the order of the tables, so that adjacent rows are written together.
func sortRows(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Day(), b.Day()), strings.Compare(a.Key, b.Key), cmp.Compare(a.Slot, b.Slot))
	})
}

// escaped begins a key that is written in hexadecimal digits.
const escaped = `\x`

// column returns a key as the tables have it. A key that no text column of all databases takes is \x and its bytes in hexadecimal
// digits: one that is not UTF-8, has a NUL, or begins with \x.
func column(key string) string {
	if utf8.ValidString(key) && strings.IndexByte(key, 0) < 0 && !strings.HasPrefix(key, escaped) {
		return key
	}
	return escaped + hex.EncodeToString([]byte(key))
}

func keyOf(column string) string {
	digits, ok := strings.CutPrefix(column, escaped)
	if !ok {
		return column
	}
	key, err := hex.DecodeString(digits)
	if err != nil {
		return column
	}
	return string(key)
}

// Gap is a time of which the rows of a journal may lack hits.
type Gap struct {
	First, Last time.Time // both included
	Why         string
}

var (
	// ErrFenced is why a transaction changed nothing: another writer has the lease of the journal.
	ErrFenced = errors.New("another writer of history has taken over")
	// ErrHeld is why no lease is given.
	ErrHeld = errors.New("another writer writes the history of this journal")
	// ErrFull is wrapped by the error for a file that has its size.
	ErrFull = errors.New("the file of history has taken its share of the disk")
)

// spansOf are the month and the year of UTC that a day is in, as weir_sums numbers them: 202611 and 2026.
func spansOf(day int64) (month, year int64) {
	at := time.Unix(day*DaySeconds, 0).UTC()
	year = int64(at.Year())
	return year*100 + int64(at.Month()), year
}

// firstMonth is below the numbers of all months, and above the numbers of all years.
const firstMonth = 100_000

// addDays adds rows to weir_days, and to their months and years. upto must be greater than in the call before with the same keys.
func (s *Store) addDays(ctx context.Context, tx *sql.Tx, origin int64, upto uint64, list []Row) error {
	sortRows(list)
	if err := s.d.upsert(ctx, tx, &days, list, origin, upto); err != nil {
		return err
	}
	type place struct {
		span int64
		key  string
	}
	at := map[place]int{}
	var added []Row
	for _, r := range list {
		r = r.bounded()
		month, year := spansOf(r.Day())
		for _, span := range []int64{month, year} {
			i, ok := at[place{span, r.Key}]
			if !ok {
				i = len(added)
				at[place{span, r.Key}] = i
				added = append(added, Row{Key: r.Key, Slot: span})
			}
			added[i].N, added[i].Doubt = added[i].N+r.N, added[i].Doubt+r.Doubt // each is bounded, and a year has 366
			added[i] = added[i].bounded()
		}
	}
	slices.SortFunc(added, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Slot, b.Slot), strings.Compare(a.Key, b.Key)) })
	return s.d.upsert(ctx, tx, &sums, added, origin, upto)
}
