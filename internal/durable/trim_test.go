package durable

import (
	"fmt"
	"testing"
	"time"
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
