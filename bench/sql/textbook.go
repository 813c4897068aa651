package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/bench/proc"
)

// A way is how a writer counts hits in the table hits (k, shard, n, version), of which k and shard are the primary key. In all but
// the sharded one shard is 0.
type way struct {
	name string
	hits int // of one call
	// count counts hits of keys, of one writer. changed says that nothing was: somebody else changed the row meanwhile.
	count func(ctx context.Context, c *counting, writer int, keys []int) (changed bool, err error)
}

// counting is one measurement's database.
type counting struct {
	d  *database
	db *sql.DB
}

var ways = []way{
	{"(a) UPDATE per hit", 1, update},
	{"(b) optimistic locking", 1, optimistic},
	{"(c) upsert per hit", 1, func(ctx context.Context, c *counting, _ int, keys []int) (bool, error) {
		return false, c.upsert(ctx, 0, map[int]int{keys[0]: 1})
	}},
	{"(d) upserts of 1,000 hits", batch, func(ctx context.Context, c *counting, _ int, keys []int) (bool, error) {
		sums := make(map[int]int, len(keys))
		for _, k := range keys {
			sums[k]++
		}
		return false, c.upsert(ctx, 0, sums)
	}},
	{"(e) a row per writer, upsert per hit", 1, func(ctx context.Context, c *counting, writer int, keys []int) (bool, error) {
		return false, c.upsert(ctx, writer, map[int]int{keys[0]: 1})
	}},
}

// batch is how many hits are sent at once where they are gathered.
const batch = 1000

func name(key int) string { return fmt.Sprintf("url:/page/%06d", key) }

func update(ctx context.Context, c *counting, _ int, keys []int) (bool, error) {
	_, err := c.db.ExecContext(ctx, c.d.placed("UPDATE hits SET n = n + 1 WHERE k = ? AND shard = 0"), name(keys[0]))
	return false, err
}

func optimistic(ctx context.Context, c *counting, _ int, keys []int) (changed bool, err error) {
	var n, version int64
	if err := c.db.QueryRowContext(ctx, c.d.placed("SELECT n, version FROM hits WHERE k = ? AND shard = 0"), name(keys[0])).Scan(&n, &version); err != nil {
		return false, err
	}
	done, err := c.db.ExecContext(ctx, c.d.placed("UPDATE hits SET n = ?, version = version + 1 WHERE k = ? AND shard = 0 AND version = ?"), n+1, name(keys[0]), version)
	if err != nil {
		return false, err
	}
	rows, err := done.RowsAffected()
	return rows == 0, err
}

// upsert adds sums in one statement, in the order of the keys: writers that lock rows in different orders deadlock.
func (c *counting) upsert(ctx context.Context, shard int, sums map[int]int) error {
	keys := make([]int, 0, len(sums))
	for k := range sums {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	args := make([]any, 0, 3*len(keys))
	for _, k := range keys {
		args = append(args, name(k), shard, sums[k])
	}
	list := strings.TrimSuffix(strings.Repeat("(?, ?, ?, 0),", len(keys)), ",")
	_, err := c.db.ExecContext(ctx, c.d.placed("INSERT INTO hits (k, shard, n, version) VALUES "+list+c.d.upsert), args...)
	return err
}

// textbook measures one way. The rows of the keys exist before it starts.
func textbook(ctx context.Context, cfg settings, d *database, w way, l load) (r row, err error) {
	_, db, err := d.make(ctx, l.writers)
	if err != nil {
		return r, err
	}
	defer db.Close()
	c := &counting{d, db}
	if _, err := db.ExecContext(ctx, "CREATE TABLE hits (k VARCHAR(255) NOT NULL, shard INTEGER NOT NULL, n BIGINT NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (k, shard))"); err != nil {
		return r, err
	}
	for k := 0; k < l.keys; k += batch {
		sums := map[int]int{}
		for i := k; i < min(k+batch, l.keys); i++ {
			sums[i] = 0
		}
		if err := c.upsert(ctx, 0, sums); err != nil {
			return r, err
		}
	}
	r = row{database: d.name, way: w.name, load: l}
	stop, err := r.measured(d, 0)
	if err != nil {
		return r, err
	}
	var hits, retries atomic.Uint64
	if err := send(ctx, cfg, l, w.hits, func(writer int, keys []int) error {
		for failed := 0; ; failed++ {
			changed, err := w.count(ctx, c, writer, keys)
			if err == nil && !changed {
				hits.Add(uint64(len(keys)))
				return nil
			}
			if err != nil && failed > 100 {
				return err
			}
			retries.Add(1)
		}
	}); err != nil {
		return r, err
	}
	r.hits, r.retries = hits.Load(), retries.Load()
	if err := stop(); err != nil {
		return r, err
	}
	var sum uint64
	if err := db.QueryRowContext(ctx, "SELECT SUM(n) FROM hits").Scan(&sum); err != nil || sum != r.hits {
		return r, fmt.Errorf("%s, %s: %d hits are in the table, %d were sent: %w", d.name, w.name, sum, r.hits, cmp.Or(err, errors.New("they are not the same")))
	}
	return r, nil
}

// send has writers call count side by side for the time of a measurement, with keys of so many hits.
func send(ctx context.Context, cfg settings, l load, hits int, count func(writer int, keys []int) error) error {
	var writing sync.WaitGroup
	end, failed := time.Now().Add(cfg.each), make([]error, l.writers)
	for writer := range l.writers {
		writing.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(writer), 1))
			keys := make([]int, hits)
			for time.Now().Before(end) && ctx.Err() == nil && failed[writer] == nil {
				for i := range keys {
					keys[i] = rnd.IntN(l.keys)
				}
				failed[writer] = count(writer, keys)
			}
		})
	}
	writing.Wait()
	return errors.Join(append(failed, ctx.Err())...)
}

// measured begins to measure time and processors, of the process weir too, if it is not 0; stop ends that.
func (r *row) measured(d *database, weir int) (stop func() error, err error) {
	spent := func() (all, server time.Duration, err error) {
		if server, err = d.cpu(); err != nil {
			return 0, 0, err
		}
		all = server
		for _, pid := range []int{os.Getpid(), weir} {
			if pid == 0 {
				continue
			}
			used, err := proc.CPU(pid)
			if err != nil {
				return 0, 0, err
			}
			all += used
		}
		return all, server, nil
	}
	all, server, err := spent()
	began := time.Now()
	return func() error {
		r.took = time.Since(began)
		allNow, serverNow, err := spent()
		r.cpu, r.server = allNow-all, serverNow-server
		return err
	}, err
}
