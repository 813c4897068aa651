package durable

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
)

// setClock is a machine's: a time of day that is set, and one that goes on.
type setClock struct{ ahead, later atomic.Int64 } // ns

func (c *setClock) config() engine.Config {
	begin := time.Now().Add(-time.Hour)
	return engine.Config{
		Partitions: 16, Gather: true,
		Now:     func() time.Time { return time.Now().Add(time.Duration(c.ahead.Load() + c.later.Load())) },
		Elapsed: func() time.Duration { return time.Since(begin) + time.Duration(c.later.Load()) },
	}
}

// The time of day is set forward by hours, then the process crashes: what the journal alone has
// of limits and of requests that may come again counts as long as it should, and no longer. So
// it is with snapshots from before and after, in the lives that follow, and in a backup.
func TestTheClockIsSetBeforeACrash(t *testing.T) {
	t.Parallel()
	const step = 3 * time.Hour
	for _, when := range []string{"nothing but the journal", "a snapshot before", "a snapshot after", "set again, and back"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			var clock setClock
			cfg := testConfig(t, t.TempDir())
			r := startWith(t, clock.config(), cfg)
			if got := admissionsOf(t, r, 9); got != 5 {
				t.Fatalf("%d admitted, want 5", got)
			}
			applied := 0
			once := func(r *running) {
				t.Helper()
				if _, _, err := r.e.OnceFrom(t.Context(), "", "order", 1, func() []byte { applied++; return []byte("answer") }); err != nil || applied != 1 {
					t.Errorf("the request was applied %d times, %v", applied, err)
				}
			}
			once(r)
			r.sync()
			if when == "a snapshot before" {
				r.snapshot()
			}
			clock.ahead.Add(int64(step))
			r.sync() // a flush interval
			switch when {
			case "a snapshot after":
				r.snapshot()
			case "set again, and back":
				for _, by := range []time.Duration{step, -step} {
					clock.ahead.Add(int64(by))
					r.sync()
				}
			}
			wantInBackup(t, r.backup(), clock.config())
			r.crash()
			r = startWith(t, clock.config(), cfg)
			for life := range 2 {
				if got := admissionsOf(t, r, 1); got != 0 {
					t.Errorf("life %d: admitted, 6 of 5 an hour", life)
				}
				once(r)
				r.crash()
				clock.later.Add(int64(time.Minute))
				r = startWith(t, clock.config(), r.j.cfg)
			}
			clock.later.Add(int64(59 * time.Minute))
			r.crash()
			r = startWith(t, clock.config(), r.j.cfg)
			if got := admissionsOf(t, r, 9); got != 5 {
				t.Errorf("%d admitted after the hour, want 5", got)
			}
		})
	}
}

func admissionsOf(t *testing.T, r *running, times int) (n int) {
	t.Helper()
	l, err := r.e.Limit("hourly", engine.Limit{N: 5, Per: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		if l.Allow("k") {
			n++
		}
	}
	return n
}

// wantInBackup wants what was admitted before the clock was set to be in a backup as such.
func wantInBackup(t *testing.T, file []byte, cfg engine.Config) {
	t.Helper()
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	b, err := backup.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Load(e, nil); err != nil {
		t.Fatal(err)
	}
	if got := admissionsOf(t, &running{t, e, nil}, 1); got != 0 {
		t.Error("admitted after a restore, 6 of 5 an hour")
	}
}

// snapshot takes one of all partitions.
func (r *running) snapshot() {
	r.t.Helper()
	rounds := r.j.Stats().Rounds
	r.j.checkpoints.StartRound()
	transporttest.Eventually(r.t, "a round of snapshots", func() bool {
		r.sync()
		return r.j.Stats().Rounds > rounds
	})
}

// All clocks of a cluster are set forward while it runs, then one node crashes: what it has of
// the journal counts as long as it should.
func TestAllClocksAreSetBeforeACrash(t *testing.T) {
	t.Parallel()
	var clock setClock
	c := newCluster(t, 3)
	c.engineOf = func(int) engine.Config { return clock.config() }
	c.start()
	limits := c.limits(limit.WhereLeased, "hourly", engine.Limit{N: 5, Per: time.Hour})
	for range 5 {
		if v, err := limits[1].Take("k", 1); err != nil || !v.Allowed {
			t.Fatal(v, err)
		}
	}
	for _, node := range c.nodes {
		node.sync()
	}
	knows := func(what string) {
		t.Helper()
		limits = c.limits(limit.WhereLeased, "hourly", engine.Limit{N: 5, Per: time.Hour})
		for i := range c.nodes {
			transporttest.Eventually(t, fmt.Sprintf("node %d denies %s", i+1, what), func() bool {
				v, err := limits[i].Peek("k", 1)
				return err == nil && !v.Allowed && v.RetryAfter > 50*time.Minute
			})
		}
	}
	knows("at first")
	clock.ahead.Add(int64(3 * time.Hour))
	for i, node := range c.nodes {
		transporttest.Eventually(t, fmt.Sprintf("node %d knows that its clock was set", i+1), func() bool { return len(node.j.replica.ClockSets()) > 0 })
	}
	for i := range c.nodes {
		c.nodes[i].crash()
		c.nodes[i] = nil
		c.start()
	}
	knows("after the crash of each")
}
