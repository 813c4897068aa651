package limits_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/clustertest"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// What reservations of leased limits did not use is given back, whatever node made them and within whatever it was granted.
func TestSettlementsGiveBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: h, keys: \"h:*\", limit: 1000, per: 1h}\n", 20*time.Millisecond)
	const key = "h:a"
	for i := range clustertest.Size {
		c.Decided(i, key)
	}
	used := uint64(0)
	for n := range 60 { // fast enough for each node to be granted something
		live := c.At(n % clustertest.Size).Live
		id := fmt.Sprint("r", n)
		var d admit.Decision
		if err := live.Reserve([]admit.Request{{Key: key, N: 10}}, weir.Reservation{ID: id, Until: time.Now().Add(time.Minute)}, &d); err != nil || d.Results[0].Away != "" {
			t.Skipf("the machine is too slow to reserve in time: %+v, %v", d.Results, err)
		}
		if !d.Allowed {
			t.Fatalf("reservation %d: %+v", n, d.Results)
		}
		took := uint64(n % 5)
		made, err := live.Settle(id, took, false, nil)
		if err != nil || len(made) != 1 || made[0].Used != took {
			t.Fatalf("settlement %d: %+v, %v", n, made, err)
		}
		used += took
	}
	var d admit.Decision
	transporttest.Eventually(t, "what was not used is free again", func() bool {
		if err := c.At(0).Live.Peek([]admit.Request{{Key: key}}, &d); err != nil {
			t.Fatal(err)
		}
		return d.Results[0].Away == "" && d.Results[0].Remaining == 1000-used
	})
}

// A reset of a leased key reaches all nodes at once, also those that deny by what the owner said before.
func TestAResetReachesAllNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: h, keys: \"h:*\", limit: 20, per: 1h}\n", 20*time.Millisecond)
	const key = "h:a"
	for i := range clustertest.Size {
		c.Decided(i, key)
	}
	for round := range 3 {
		for i := range clustertest.Size {
			transporttest.Eventually(t, "each node denies", func() bool { d := c.Take(i, key); return !d.Allowed && d.Results[0].Away == "" })
		}
		transporttest.Eventually(t, "the reset is answered", func() bool {
			_, _, err := c.At(round).Live.Reset("h", key)
			return err == nil
		})
		began := time.Now()
		for i := range clustertest.Size {
			transporttest.Eventually(t, "each node admits", func() bool { return c.Take(i, key).Allowed })
		}
		t.Logf("all nodes admit %v after the reset", time.Since(began))
	}
}
