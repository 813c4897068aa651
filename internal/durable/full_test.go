package durable

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
)

// smallDisk is a configuration of the least disk there may be.
func smallDisk(t testing.TB) Config {
	cfg := testConfig(t, t.TempDir())
	cfg.MaxBytes, cfg.SnapshotBytes = minMaxBytes, 256<<10
	return cfg
}

func startSmall(t testing.TB, cfg Config) *running {
	t.Helper()
	r, err := tryStartWith(t, cfg, smallEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// take counts a hit, and tells whether it was taken.
func (r *running) take(key string, at int64) bool {
	r.t.Helper()
	_, err := r.e.HitAt(time.Unix(at, 0), key, 1)
	var refused *engine.Error
	if err != nil && (!errors.As(err, &refused) || refused.Code != api.CodeOverloaded) {
		r.t.Fatal(err)
	}
	return err == nil
}

// hitWhenTaken counts a hit, again after each flush until it is taken.
func (r *running) hitWhenTaken(key string, at int64) {
	r.t.Helper()
	transporttest.Eventually(r.t, "a hit is taken", func() bool {
		if r.take(key, at) {
			return true
		}
		ctx, cancel := context.WithTimeout(r.t.Context(), transporttest.Patience)
		defer cancel()
		if err := r.j.Sync(ctx); err != nil && !errors.Is(err, concurrency.ErrQueueFull) {
			r.t.Fatal(err)
		}
		return r.take(key, at)
	})
}

// stop keeps a node from starting rounds of snapshots until go on is called.
func (r *running) holdRounds() (goOn func()) {
	r.j.checkpoints.Pause(time.Now().Add(time.Hour))
	return func() { r.j.checkpoints.Pause(time.Time{}) }
}

// fill hits new keys until no more are taken, and returns how many were. With many nodes
// on each of them.
func fill(t testing.TB, nodes ...*running) (taken uint64) {
	t.Helper()
	began := time.Now()
	for i := 0; ; i++ {
		full := 0
		for at, node := range nodes {
			if node.alarmed("journal_full") {
				full++
				continue
			}
			for k := range 500 {
				if node.take(fmt.Sprintf("%0400d", i*500+k), 1_000_000+int64(at)) {
					taken++
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), transporttest.Patience)
			if err := node.j.Sync(ctx); err != nil && !errors.Is(err, concurrency.ErrQueueFull) {
				t.Fatal(err)
			}
			cancel()
		}
		if full == len(nodes) {
			return taken
		}
		if time.Since(began) > 2*transporttest.Patience {
			t.Fatal("the journal never ran full")
		}
	}
}

func (r *running) alarmed(code string) bool {
	for _, a := range r.j.Alarms() {
		if a.Code == code {
			return true
		}
	}
	return false
}

// writable waits until all nodes take hits.
func writable(t testing.TB, nodes ...*running) {
	t.Helper()
	began := time.Now()
	for i, node := range nodes {
		transporttest.Eventually(t, fmt.Sprintf("node %d takes hits", i+1), func() bool { return node.take("after", 1_000_100) && !node.alarmed("journal_full") })
	}
	t.Logf("writable again after %v", time.Since(began).Round(time.Millisecond))
}

// A full journal refuses hits before they are counted, says so, and empties itself, also
// after a restart: whatever was counted is there.
func TestFullJournalEmptiesItself(t *testing.T) {
	t.Parallel()
	cfg := smallDisk(t)
	r := startSmall(t, cfg)
	goOn := r.holdRounds()
	taken := fill(t, r)
	r.want(engine.AllKeys, taken)
	goOn()
	writable(t, r)
	r.sync()

	r.holdRounds()
	taken += 1 + fill(t, r)
	r.sync()
	r.crash()
	r = startSmall(t, cfg)
	r.want(engine.AllKeys, taken)
	writable(t, r)
	r.sync()
	r.want(engine.AllKeys, taken+1)
	r.close()
}

// The same in a cluster, one node of it restarted, and then all.
func TestFullJournalEmptiesItselfInACluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.engine = smallEngineConfig()
	for i := range c.cfgs {
		c.cfgs[i].MaxBytes, c.cfgs[i].SnapshotBytes = minMaxBytes, 256<<10
	}
	c.start()
	taken, goOn := uint64(0), []func(){}
	for _, node := range c.nodes {
		goOn = append(goOn, node.holdRounds())
	}
	taken += fill(t, c.nodes...)
	for _, f := range goOn {
		f()
	}
	writable(t, c.nodes...)
	taken += 3
	for _, restarted := range [][]int{{1}, {0, 1, 2}} {
		for _, node := range c.nodes {
			node.holdRounds()
		}
		taken += fill(t, c.nodes...)
		for _, i := range restarted {
			c.nodes[i].crash()
			c.nodes[i] = nil
		}
		c.start()
		for _, node := range c.nodes {
			node.j.checkpoints.Pause(time.Time{})
		}
		writable(t, c.nodes...)
		taken += 3
		c.agree(map[string]uint64{engine.AllKeys: taken})
	}
}
