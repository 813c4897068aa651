package limits_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/limits"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
)

// What reservations of leased limits did not use is given back, whatever node made them and within whatever it was granted.
func TestSettlementsGiveBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: h, keys: \"h:*\", limit: 1000, per: 1h}\n", 20*time.Millisecond)
	transporttest.Eventually(t, "what was not used is free again", func() bool { // an answer that is lost on a busy machine takes quota with it
		key := fmt.Sprint("h:", time.Now().UnixNano())
		used, all := reserveAndSettle(t, c, key)
		for began := time.Now(); all && time.Since(began) < 20*time.Second; {
			var d admit.Decision
			if err := c.At(0).Live.Peek([]admit.Request{{Key: key}}, &d); err != nil {
				t.Fatal(err)
			}
			if d.Results[0].Away == "" && d.Results[0].Remaining == 1000-used {
				return true
			}
			<-time.After(100 * time.Millisecond)
		}
		return false
	})
}

// reserveAndSettle makes reservations at all nodes, fast enough for each to be granted something, and tells how much they used, and
// whether all were answered.
func reserveAndSettle(t *testing.T, c *limits.Cluster, key string) (used uint64, all bool) {
	for n := range 60 {
		live := c.At(n % limits.ClusterSize).Live
		id := fmt.Sprint(key, n)
		var d admit.Decision
		if err := live.Reserve([]admit.Request{{Key: key, N: 10}}, engine.Reservation{ID: id, Until: time.Now().Add(time.Minute)}, &d); err != nil || !d.Allowed {
			t.Logf("reservation %d: %+v, %v", n, d.Results, err)
			return used, false
		}
		took := uint64(n % 5)
		if made, err := live.Settle(id, admit.Used{N: took}, false, nil); err != nil || len(made) != 1 || made[0].Used != took {
			t.Logf("settlement %d: %+v, %v", n, made, err)
			return used, false
		}
		used += took
	}
	return used, true
}

// A request to reserve that is sent to all nodes at once, before any of them can know of the others from the journal, takes what it
// needs once.
func TestReserveAtSeveralNodesTakesOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: h, keys: \"h:*\", limit: 1000, per: 1h}\n  - {name: s, keys: \"h:*\", limit: 1000, per: 1h, where: strict}\n", 20*time.Millisecond)
	transporttest.Eventually(t, "it took what it needs once", func() bool { // an answer that is lost on a busy machine takes quota with it
		key := fmt.Sprint("h:", time.Now().UnixNano())
		var all sync.WaitGroup
		var failed, first atomic.Int64
		for n := range limits.ClusterSize {
			all.Go(func() {
				var d admit.Decision
				err := c.At(n).Live.Reserve([]admit.Request{{Key: key, N: 10}}, engine.Reservation{ID: key, Until: time.Now().Add(time.Minute)}, &d)
				if err != nil || !d.Allowed {
					t.Logf("node %d: %+v, %v", n, d.Results, err)
					failed.Add(1)
				} else if !d.Repeats {
					first.Add(1)
				}
			})
		}
		all.Wait()
		for began := time.Now(); failed.Load() == 0 && time.Since(began) < 20*time.Second; <-time.After(100 * time.Millisecond) {
			var d admit.Decision
			if err := c.At(0).Live.Peek([]admit.Request{{Key: key}}, &d); err != nil {
				t.Fatal(err)
			}
			if r := d.Results; r[0].Away == "" && r[1].Away == "" && r[0].Remaining == 990 && r[1].Remaining == 990 {
				return first.Load() <= 1 // with two limits, each node may have been first at one of them
			}
		}
		return false
	})
}

// A reset of a leased key reaches all nodes at once, also those that deny by what the owner said before.
func TestAResetReachesAllNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: h, keys: \"h:*\", limit: 20, per: 1h}\n", 20*time.Millisecond)
	const key = "h:a"
	for i := range limits.ClusterSize {
		c.Decided(i, key)
	}
	for round := range 3 {
		for i := range limits.ClusterSize {
			transporttest.Eventually(t, "each node denies", func() bool { d := c.Take(i, key); return !d.Allowed && d.Results[0].Away == "" })
		}
		transporttest.Eventually(t, "the reset is answered", func() bool {
			_, _, err := c.At(round).Live.Reset("h", key)
			return err == nil
		})
		began := time.Now()
		for i := range limits.ClusterSize {
			transporttest.Eventually(t, "each node admits", func() bool { return c.Take(i, key).Allowed })
		}
		reached(t, "a reset", time.Since(began))
	}
}

// reached tells how long it took until all nodes knew of a change: within 300 ms on a machine that has nothing else to do.
func reached(t *testing.T, change string, took time.Duration) {
	t.Helper()
	if t.Logf("all nodes knew of %s after %v", change, took); *ownerExact && took > 300*time.Millisecond {
		t.Errorf("want %s known within 300 ms", change)
	}
}

// A policy that is changed by API is in use at all nodes at once, also where a leased key was denied by the one before.
func TestPolicyChangesReachAllNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: other, keys: \"o:*\", limit: 1, per: 1h}\n", 100*time.Millisecond)
	var kept [limits.ClusterSize]*access.KeptPolicies
	for i := range kept {
		transporttest.Eventually(t, "the policies are read", func() bool {
			var err error
			kept[i], err = access.OpenKept(t.Context(), c.At(i).Journal.Policies(), c.At(i).Live, false, transporttest.Logger(t, slog.LevelError))
			return err == nil
		})
		watching, end := context.WithCancel(context.Background())
		ended := kept[i].Watch(watching)
		defer func() { end(); ended() }()
	}
	const key = "h:a"
	for round := range 2 * limits.ClusterSize {
		most := uint64(20 * (1 + round))
		policy := admit.StoredPolicy{Name: "h", Text: fmt.Sprintf(`{"keys":"h:*","limit":%d,"per":"1h"}`, most)}
		transporttest.Eventually(t, "the policy is put", func() bool {
			_, err := kept[round%limits.ClusterSize].Put(t.Context(), &policy, admit.PolicyCondition{})
			return err == nil
		})
		began := time.Now()
		for i := range limits.ClusterSize {
			transporttest.Eventually(t, "each node admits by the new policy", func() bool {
				d := c.Take(i, key)
				return d.Allowed && len(d.Results) == 1 && d.Results[0].Limit.N == most
			})
		}
		if round > 0 { // the first one makes the stream of policies
			reached(t, "a policy", time.Since(began))
		}
		for i := range limits.ClusterSize {
			transporttest.Eventually(t, "each node denies", func() bool { d := c.Take(i, key); return !d.Allowed && d.Results[0].Away == "" })
		}
	}
}

// A ban, and its end, reach all nodes with the next flush: within 300 ms on a machine that has nothing else to do.
func TestBansReachAllNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: h, keys: \"h:*\", limit: 20, per: 1h}\n", 100*time.Millisecond)
	const key = "h:a"
	for i := range limits.ClusterSize {
		c.Decided(i, key)
	}
	for round := range 2 * limits.ClusterSize {
		live, bans := c.At(round%limits.ClusterSize).Live, round%2 == 0
		began := time.Now()
		var err error
		if bans {
			err = live.Ban("h", key, time.Hour)
		} else {
			_, err = live.Unban("h", key)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range limits.ClusterSize {
			transporttest.Eventually(t, "each node knows", func() bool {
				var d admit.Decision
				return c.At(i).Live.Peek([]admit.Request{{Key: key}}, &d) == nil && d.Results[0].Banned == bans
			})
		}
		reached(t, "a ban", time.Since(began))
	}
}
