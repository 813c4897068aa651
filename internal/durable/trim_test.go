package durable

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// A node that does not trim the journal knows that another one does: it goes on after
// more than the journal may have was written.
func TestMoreIsWrittenThanIsRetained(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.engine = smallEngineConfig()
	for i := range c.cfgs {
		c.cfgs[i].MaxBytes, c.cfgs[i].SnapshotBytes = minMaxBytes, 1<<20
	}
	c.start()
	for written, round := 0, 0; written < minMaxBytes*3/4; round++ { // snapshots have the other half
		node := c.nodes[round%3]
		for k := range 400 {
			key := fmt.Sprintf("%d-%0480d", round%7, k)
			node.hitWhenTaken(key, 1_000_000)
			written += len(key)
		}
		node.sync()
	}
	for i, node := range c.nodes {
		if s := node.j.Stats(); s.Failures > 0 && s.Failing {
			t.Errorf("node %d: %+v", i+1, s)
		}
	}
	_, _, bytes, err := c.nodes[0].j.store.Bounds(t.Context())
	if err != nil || bytes > minMaxBytes/2 {
		t.Errorf("%d bytes are kept, %v", bytes, err)
	}
	at := time.Unix(1_000_000, 0)
	if got, err := c.nodes[0].e.CountAt(at, fmt.Sprintf("%d-%0480d", 3, 7), time.Hour); err != nil || got.Lower == 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// What only the journal has is not trimmed, though there is haste; once it is not needed any more it is.
func TestWhatNothingElseHasIsNotTrimmed(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	cfg.MaxBytes, cfg.SnapshotBytes = minMaxBytes, 64<<10
	var needed atomic.Uint64
	needed.Store(2)
	cfg.Needed = func(haste bool) uint64 {
		if haste {
			return needed.Load()
		}
		return max(needed.Load(), 1)
	}
	r := startWith(t, smallEngineConfig(), cfg)
	first := func() uint64 {
		first, _, err := r.j.Bounds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return first
	}
	for round := 0; !r.j.space.Full() && round < 1000; round++ {
		for k := range 100 {
			r.take(fmt.Sprintf("%d-%0480d", round%3, k), 1_000_000)
		}
		_ = r.j.Sync(t.Context()) // it may be refused for want of space
	}
	if is := first(); is > 2 || !r.j.space.Full() {
		t.Errorf("the journal begins at message %d, full: %v", is, r.j.space.Full())
	}
	if alarms := r.j.fullAlarms(); len(alarms) == 0 || !strings.Contains(alarms[0].Message, "older than the retention") {
		t.Errorf("%+v", alarms)
	}
	needed.Store(0)
	transporttest.Eventually(t, "it is trimmed, and hits are taken", func() bool { return first() > 2 && r.take("a", 1_000_000) })
	r.close()
}
