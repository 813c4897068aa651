package store_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/history/store"
)

// testTop compares the keys with the most hits of many times with brute force: of days, months and years and what is between, with late hits,
// deletions, fillings, days that are summed up again, and hits of another journal.
func testTop(t *testing.T, s *store.Store) {
	rnd := rand.New(rand.NewPCG(5, 9))
	l := claim(t, s, "a")
	other, err := s.Claim(t.Context(), "j2", "a", 0, time.Minute, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	type at struct {
		key  string
		slot int64
	}
	const first, years, some = 365 * 30, 2, 9 // days: of 1999 on, of which some have hits
	name := func() string {
		k := min(int(rnd.ExpFloat64()*8), 60)
		return []string{"url:", "user:", "limit:"}[k%3] + fmt.Sprint(k)
	}
	truth := map[at]uint64{}
	hits := func(from, to int64, n int) (rows []store.Row) {
		counts := map[at]uint64{}
		for range n {
			counts[at{name(), (first+from+rnd.Int64N(to-from))/some*some*day + rnd.Int64N(24)*3600}] += rnd.Uint64N(50) + 1
		}
		for at, n := range counts {
			rows = append(rows, store.Row{Key: at.key, Slot: at.slot, N: n})
			truth[at] += n
			rows = append(rows, store.Row{Key: "*", Slot: at.slot, N: n})
		}
		slices.SortFunc(rows, func(a, b store.Row) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Slot, b.Slot)) })
		merged := rows[:0]
		for _, r := range rows {
			if i := len(merged) - 1; i >= 0 && merged[i].Key == r.Key && merged[i].Slot == r.Slot {
				merged[i].N += r.N
				continue
			}
			merged = append(merged, r)
		}
		return merged
	}
	for month := range int64(12 * years) {
		b := store.Batch{Rows: hits(month*30, month*30+32, 80)}
		if month%5 == 4 {
			b.Remove = []string{name()}
			for place := range truth {
				if place.key == b.Remove[0] {
					delete(truth, place)
				}
			}
			b.Rows = slices.DeleteFunc(b.Rows, func(r store.Row) bool { return r.Key == b.Remove[0] })
		}
		commit(t, s, &l, b)
		commit(t, s, &l, store.Batch{Rows: hits(0, month*30+1, 20)}) // late
		if month%3 == 0 {
			commit(t, s, &other, store.Batch{Rows: hits(max(0, month*30-60), month*30+1, 30)})
		}
		if month%2 == 0 {
			for _, lease := range []*store.Lease{&l, &other} {
				if err := s.Roll(t.Context(), lease, first+month*30); err != nil {
					t.Fatal(err)
				}
			}
		}
		if month%12 == 7 { // the journal was trimmed: the last days are filled in, and summed up again
			f, err := s.BeginFill(t.Context(), &l)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.AddFill(t.Context(), &l, f, hits(month*30-20, month*30, 50), nil, store.IDs{}); err != nil {
				t.Fatal(err)
			}
			if err := s.EndFill(t.Context(), &l, f, &store.Batch{Message: l.Message + 1, AsOf: time.Unix((first+month*30)*day, 0)}, min(l.Rolled, first+month*30-20)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 25 {
		from := first + rnd.Int64N(365*years)
		to := from + 1 + rnd.Int64N(first+365*years+40-from)
		switch rnd.IntN(4) {
		case 0: // a month or a year of UTC
			year, month := 2000+rnd.IntN(2), time.Month(1+rnd.IntN(12))
			from = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Unix() / day
			to = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC).Unix() / day
			if month == 1 {
				to = time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix() / day
			}
		case 1:
			to = from + 1 + rnd.Int64N(4)
		}
		ranking := history.Ranking{Prefix: []string{"", "url:", "limit:", "user:1"}[rnd.IntN(4)], From: from * day, To: to * day, N: 1 + rnd.IntN(8)}
		if rnd.IntN(3) == 0 { // as days of other time zones
			ranking.From, ranking.To = ranking.From-3*3600, ranking.To-3*3600
		}
		checkTop(t, s, ranking, func(want map[string]uint64) {
			for of2, n := range truth {
				if of2.slot >= ranking.From && of2.slot < ranking.To {
					want[of2.key] += n
				}
			}
		})
	}
}

// checkTop compares with brute force; truth adds up the hits of each key in that time.
func checkTop(t *testing.T, s *store.Store, ranking history.Ranking, truth func(map[string]uint64)) {
	t.Helper()
	var got []engine.KeyCount
	if err := s.View(t.Context(), func(v *store.View) (err error) {
		got, err = history.Top(t.Context(), v, ranking, nil, time.Now())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	all := map[string]uint64{}
	truth(all)
	var want []uint64
	for key, n := range all {
		if key != "*" && len(key) >= len(ranking.Prefix) && key[:len(ranking.Prefix)] == ranking.Prefix && (key[:4] != "limi" || ranking.Prefix == "limit:") {
			want = append(want, n)
		}
	}
	slices.SortFunc(want, func(a, b uint64) int { return cmp.Compare(b, a) })
	want = want[:min(ranking.N, len(want))]
	for i, n := range want {
		if i >= len(got) || got[i].Lower != n || all[got[i].Key] != n || !got[i].Exact() {
			t.Fatalf("%+v: %v, want hits %v", ranking, got, want)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%+v: %d keys, want %d", ranking, len(got), len(want))
	}
}

// testSums has the sums of a history that was written before there were any, by the first tables, and takes its lease from who wrote it.
func testSums(t *testing.T, s *store.Store) {
	db := s.DB()
	l := claim(t, s, "a")
	rows := []store.Row{{Key: "k", Slot: 30 * day, N: 3}, {Key: "k", Slot: 31 * day, N: 4}, {Key: "k", Slot: 364 * day, N: 5}, {Key: "k", Slot: 365 * day, N: 6}, {Key: "j", Slot: 31 * day, N: 7}}
	commit(t, s, &l, store.Batch{Rows: rows})
	if err := s.Roll(t.Context(), &l, 1000); err != nil {
		t.Fatal(err)
	}
	sums := func() (got string) {
		rows, err := db.QueryContext(t.Context(), "SELECT span, n FROM weir_sums ORDER BY span, n")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var span, n int64
			if err := rows.Scan(&span, &n); err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprintf(" %d:%d", span, n)
		}
		return got
	}
	const want = " 1970:7 1970:12 1971:6 197001:3 197002:4 197002:7 197012:5 197101:6"
	if got := sums(); got != want {
		t.Fatalf("%s, want%s", got, want)
	}
	for _, statement := range []string{"DROP TABLE weir_sums", "DROP TABLE weir_ids", "DELETE FROM weir_migrations WHERE version_id >= 2"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sums(); got != want {
		t.Fatalf("of days that were there before: %s, want%s", got, want)
	}
	if err := s.Commit(t.Context(), &l, &store.Batch{Message: 99, UpTo: 99}); !errors.Is(err, store.ErrFenced) {
		t.Fatal("who wrote before there were sums goes on:", err)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE weir_migrations SET version_id = 99 WHERE version_id = 2"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), "j1", "a", 0, time.Minute, time.Hour); err == nil || !strings.Contains(err.Error(), "later version of Weir") {
		t.Error("a lease of tables of a later version:", err)
	}
	if err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "later version of Weir") {
		t.Error("migrates tables of a later version:", err)
	}
}
