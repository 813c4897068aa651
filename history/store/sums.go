package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"
)

// spansOf are the month and the year of UTC that a day is in, as weir_sums numbers them: 202611 and 2026.
func spansOf(day int64) (month, year int64) {
	at := time.Unix(day*DaySeconds, 0).UTC()
	year = int64(at.Year())
	return year*100 + int64(at.Month()), year
}

// firstMonth is below the numbers of all months, and above those of all years.
const firstMonth = 100_000

// addDays adds rows to weir_days, and to the months and years that these days are in. upto must be greater than in the call
// before of the same keys.
func (s *Store) addDays(ctx context.Context, tx *sql.Tx, origin int64, upto uint64, days []Row) error {
	sortRows(days)
	if err := s.d.days(ctx, tx, days, origin, upto); err != nil {
		return err
	}
	type place struct {
		span int64
		key  string
	}
	at := map[place]int{}
	var sums []Row
	for _, r := range days {
		r = r.bounded()
		month, year := spansOf(r.Day())
		for _, span := range []int64{month, year} {
			i, ok := at[place{span, r.Key}]
			if !ok {
				i = len(sums)
				at[place{span, r.Key}] = i
				sums = append(sums, Row{Key: r.Key, Slot: span})
			}
			sums[i].N, sums[i].Doubt = sums[i].N+r.N, sums[i].Doubt+r.Doubt // each is bounded, and a year has 366
			sums[i] = sums[i].bounded()
		}
	}
	slices.SortFunc(sums, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Slot, b.Slot), strings.Compare(a.Key, b.Key)) })
	return s.d.sums(ctx, tx, sums, origin, upto)
}
