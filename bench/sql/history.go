package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/bench/proc"
	internalhistory "github.com/weir-counter/weir/internal/history"
	"github.com/weir-counter/weir/internal/history/store"
)

// history prints the figures of history in docs/history.md.
func history(ctx context.Context, cfg settings, keys, active int) error {
	if err := cfg.prepare(); err != nil {
		return err
	}
	defer os.RemoveAll(cfg.scratch)
	if keys > 0 {
		if err := year(ctx, cfg, keys, active); err != nil {
			return err
		}
	}
	return costToHits(ctx, cfg)
}

const daysOfYear = 365

// year makes the days of a year of many keys in SQLite, as the writer lays them out, and asks.
func year(ctx context.Context, cfg settings, keys, active int) error {
	file := filepath.Join(cfg.scratch, "year.db")
	s, err := store.Open(store.Config{URL: "sqlite:" + file})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Migrate(ctx); err != nil {
		return err
	}
	l, err := s.Claim(ctx, "journal", "bench", 0, time.Minute, time.Hour)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)")
	if err != nil {
		return err
	}
	defer db.Close()
	today := time.Now().Unix() / store.DaySeconds
	began := time.Now()
	// Each key has hits on one day of every daysOfYear/active, and the first of them most, by Zipf's law. Its days are made in
	// pieces, as large as what is not in the file yet may be.
	const piece = 2_000_000
	for first, step := 0, max(1, piece/active); first < keys; first += step {
		if _, err := db.ExecContext(ctx, fmt.Sprintf(`INSERT INTO weir_days (key, day, origin, n, doubt, upto)
			WITH RECURSIVE k (k) AS (SELECT %d UNION ALL SELECT k + 1 FROM k WHERE k < %d), d (d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM d WHERE d < %d)
			SELECT printf('url:/page/%%06d', k), %d + (d * %d / %d + k) %% %d, %d, 1 + 100000000 / (k + 1) + (k * 7 + d * 13) %% 10, 0, 1 FROM k, d`,
			first, min(first+step, keys)-1, active-1, today-daysOfYear, daysOfYear, active, daysOfYear, l.Origin)); err != nil {
			return err
		}
	}
	days, err := settle(ctx, s, db)
	if err != nil {
		return err
	}
	for first, step := 0, max(1, piece/active); first < keys; first += step {
		for _, span := range []string{"CAST(strftime('%Y%m', day * 86400, 'unixepoch') AS INTEGER)", "CAST(strftime('%Y', day * 86400, 'unixepoch') AS INTEGER)"} {
			if _, err := db.ExecContext(ctx, "INSERT INTO weir_sums (span, key, origin, n, doubt, upto) SELECT "+span+", key, origin, sum(n), 0, 1 FROM weir_days WHERE key >= ? AND key <= ? GROUP BY 1, 2, 3",
				name(first), name(min(first+step, keys)-1)); err != nil {
				return err
			}
		}
	}
	all, err := settle(ctx, s, db)
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "UPDATE weir_journals SET rolled = ?, as_of = ?, message = 1", today, time.Now().UnixMilli()); err != nil {
		return err
	}
	rows := keys * active
	fmt.Printf("a year of %d keys that have hits on %d days each: %d rows, made in %.0f s\n", keys, active, rows, time.Since(began).Seconds())
	fmt.Printf("size on disk: %.2f GB, %.0f bytes for each key and day; of it sums of months and years %.2f GB\n", float64(all)/1e9, float64(all)/float64(rows), float64(all-days)/1e9)

	bounds := make([]int64, daysOfYear+1)
	for i := range bounds {
		bounds[i] = (today - daysOfYear + int64(i)) * store.DaySeconds
	}
	var took []time.Duration
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		began := time.Now()
		var totals []weir.Count
		if err := s.View(ctx, func(v *store.View) (err error) {
			totals, err = internalhistory.Totals(ctx, v, name(rnd.IntN(keys)), bounds, nil, time.Now())
			return err
		}); err != nil {
			return err
		}
		took = append(took, time.Since(began))
		hits := 0
		for _, t := range totals {
			if t.Lower > 0 {
				hits++
			}
		}
		if hits != active {
			return fmt.Errorf("%d days have hits, of %d", hits, active)
		}
	}
	fmt.Printf("the 365 days of one key: median %v, 99 %% within %v (goal: 5 ms)\n", middle(took, 0.5), middle(took, 0.99))
	if err := tops(ctx, s, db, today); err != nil {
		return err
	}
	return sumUp(ctx, s, db, &l, keys*active/daysOfYear, today)
}

// settle has all that was written in the file, and tells how large it is.
func settle(ctx context.Context, s *store.Store, db *sql.DB) (bytes int64, err error) {
	_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return s.FileSize(), err
}

// tops asks for the keys with the most hits of a year, and of parts of it.
func tops(ctx context.Context, s *store.Store, db *sql.DB, today int64) error {
	year, month, _ := time.Unix(today*store.DaySeconds, 0).UTC().Date()
	midnight := func(year int, month time.Month) int64 { return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Unix() }
	now := today * store.DaySeconds
	for _, span := range []struct {
		what     string
		from, to int64
	}{
		{"365 days", now - daysOfYear*store.DaySeconds, now},
		{"365 days of a zone an hour off", now - daysOfYear*store.DaySeconds + 3600, now - store.DaySeconds + 3600},
		{"this year of UTC", midnight(year, 1), midnight(year+1, 1)},
		{"the month before", midnight(year, month-1), midnight(year, month)},
		{"30 days", now - 30*store.DaySeconds, now},
		{"7 days", now - 7*store.DaySeconds, now},
	} {
		var took []time.Duration
		for range 5 {
			began := time.Now()
			if err := s.View(ctx, func(v *store.View) error {
				top, err := internalhistory.Top(ctx, v, internalhistory.Ranking{From: span.from, To: span.to, N: 100}, nil, time.Now())
				if err == nil && len(top) != 100 {
					err = fmt.Errorf("%d keys", len(top))
				}
				return err
			}); err != nil {
				return err
			}
			took = append(took, time.Since(began))
		}
		fmt.Printf("the top 100 of %s: median %v, at most %v (goal: 1 s)\n", span.what, middle(took, 0.5), middle(took, 1))
	}
	began := time.Now()
	var n int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT key, SUM(n) AS hits FROM weir_days WHERE day >= ? GROUP BY key ORDER BY hits DESC LIMIT 100)", today-daysOfYear).Scan(&n); err != nil || n != 100 {
		return fmt.Errorf("%d keys: %w", n, err)
	}
	fmt.Printf("the same of 365 days in SQL over all their rows: %v\n", time.Since(began).Round(time.Millisecond))
	return nil
}

// slotsOfDay is in how many hours of a day a key has hits, in sumUp.
const slotsOfDay = 4

// sumUp measures what the writer does once a day.
func sumUp(ctx context.Context, s *store.Store, db *sql.DB, l *store.Lease, keys int, today int64) error {
	if _, err := db.ExecContext(ctx, fmt.Sprintf(`INSERT INTO weir_hours (day, key, slot, origin, n, doubt, upto)
		WITH RECURSIVE k (k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM k WHERE k < %d), h (h) AS (SELECT 0 UNION ALL SELECT h + 1 FROM h WHERE h < %d)
		SELECT %d, printf('url:/page/%%06d', k * 3), %d + h * 3600, %d, 1, 0, 2 FROM k, h`, keys-1, slotsOfDay-1, today, today*store.DaySeconds, l.Origin)); err != nil {
		return err
	}
	l.Rolled = today
	began := time.Now()
	if err := s.Roll(ctx, l, today+1); err != nil {
		return err
	}
	fmt.Printf("a day of %d keys that is over, summed up into its month and year: %v\n", keys, time.Since(began).Round(time.Millisecond))
	return nil
}

func middle(list []time.Duration, part float64) time.Duration {
	slices.Sort(list)
	return list[int(part*float64(len(list)-1))].Round(10 * time.Microsecond)
}

// rounds is how often each way to run is measured, in turns.
const rounds = 3

// warm is how long hits are sent before they are measured, and steady is how long they are measured. steady is longer
// than the 5 s between two writes of history.
const warm, steady = time.Second, 6 * time.Second

// costToHits compares a server with history and one without. It measures the processor time of the server per hit,
// which bounds throughput, and the latency of requests.
func costToHits(ctx context.Context, cfg settings) error {
	l := load{keys: 10_000, writers: 4}
	for _, durable := range []bool{false, true} {
		if err := compareCosts(ctx, cfg, l, durable); err != nil {
			return err
		}
	}
	return nil
}

func compareCosts(ctx context.Context, cfg settings, l load, durable bool) error {
	costs, waits := map[bool][]time.Duration{}, map[bool][]time.Duration{}
	for range rounds {
		for _, on := range []bool{false, true} {
			cost, wait, err := costOf(ctx, cfg, l, durable, on)
			if err != nil {
				return err
			}
			costs[on], waits[on] = append(costs[on], cost), append(waits[on], wait...)
		}
	}
	with, without := toMillis(costs[true]), toMillis(costs[false])
	kind := "hits"
	if durable {
		kind = "durable hits"
	}
	fmt.Printf("processor time of a million %s in requests of 1,000, on %d keys: %v with history, %v without: %+.1f %% (goal: 3 %%)\n", kind, l.keys, with, without, 100*(float64(with)/float64(without)-1))
	fmt.Printf("a request of 1,000 %s: median %v with history, %v without; 99 %% within %v and %v\n",
		kind, middle(waits[true], 0.5), middle(waits[false], 0.5), middle(waits[true], 0.99), middle(waits[false], 0.99))
	return nil
}

// toMillis is the median to 1 ms.
func toMillis(list []time.Duration) time.Duration { return middle(list, 0.5).Round(time.Millisecond) }

// costOf is the processor time of a million hits, until history has them, and how long each request took.
func costOf(ctx context.Context, cfg settings, l load, durable, on bool) (cost time.Duration, waits []time.Duration, err error) {
	c, server, err := startWeir(ctx, cfg, durable, fmt.Sprintf("--history=%v", on))
	if err != nil {
		return 0, nil, err
	}
	var mu sync.Mutex
	hits := uint64(0)
	sent := func(long time.Duration) error {
		timed := cfg
		timed.each, hits, waits = long, 0, nil
		if err := send(ctx, timed, l, batch, func(_ int, keys []int) error {
			list, began := hitsOf(keys), time.Now()
			receipt, err := c.Send(ctx, list)
			mu.Lock()
			defer mu.Unlock()
			hits += receipt.Counted
			waits = append(waits, time.Since(began))
			return err
		}); err != nil || !on {
			return err
		}
		return caughtUp(ctx, c)
	}
	if err := sent(warm); err != nil {
		return 0, nil, err
	}
	pid := server.cmd.Process.Pid
	before, err := proc.CPU(pid)
	if err != nil {
		return 0, nil, err
	}
	if err := sent(steady); err != nil {
		return 0, nil, err
	}
	after, err := proc.CPU(pid)
	if err != nil {
		return 0, nil, err
	}
	return time.Duration(float64(after-before) * 1e6 / float64(max(hits, 1))), waits, server.stop()
}
