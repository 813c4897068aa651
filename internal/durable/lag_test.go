package durable

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
)

var (
	lagFor   = flag.Duration("lag.for", time.Second, "how long TestClusterLag measures")
	lagTrip  = flag.Duration("lag.rtt", 80*time.Millisecond, "round trip time between nodes")
	lagNodes = flag.Int("lag.nodes", 3, "nodes, of which three keep the journal")
	lagFlush = flag.Duration("lag.flush", 100*time.Millisecond, "their flush interval")
	lagOut   = flag.String("lag.out", "", "file for the line; empty: the test's log")
)

// TestClusterLag measures how long a hit takes from the node that took it to the counts of
// each other one (make cluster-lag), with real servers and proxies between them that hold
// back what they say. How long that is it does not judge: a busy machine takes longer. That
// hits arrive at all it does.
func TestClusterLag(t *testing.T) {
	t.Parallel()
	c := newCluster(t, *lagNodes)
	var configs []*transport.Config
	for i := range c.cfgs {
		c.cfgs[i].FlushEvery = *lagFlush
		configs = append(configs, &c.cfgs[i].Join)
	}
	transporttest.NewNetwork(t, *lagTrip).Between(t, configs)
	c.start()
	all := c.measureLag(*lagFor)
	for i, node := range c.nodes {
		key := fmt.Sprint("of ", i)
		for k, other := range c.nodes {
			transporttest.Eventually(t, fmt.Sprintf("node %d counts the hits of node %d", k+1, i+1), func() bool {
				want := totalOf(t, node.e, key)
				return want > 0 && totalOf(t, other.e, key) == want
			})
		}
	}
	late, furthest := 0, time.Duration(0)
	for _, node := range c.nodes {
		asOf, list := node.j.LateOrigins()
		late, furthest = late+len(list), max(furthest, time.Since(asOf))
	}
	slices.Sort(all)
	at := func(share float64) time.Duration {
		return all[int(float64(len(all)-1)*share)].Round(time.Millisecond)
	}
	line := fmt.Sprintf("%d nodes, %v between them, a flush each %v: a hit is in the counts of another node after p50 %v, p99 %v, most %v (%d seen); in the end as_of %v ago, %d called late\n",
		*lagNodes, *lagTrip, *lagFlush, at(.5), at(.99), at(1), len(all), furthest.Round(time.Millisecond), late)
	if *lagOut == "" {
		t.Log(line)
	} else if err := os.WriteFile(*lagOut, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
}

// measureLag hits a key of its own on each node, once in a flush interval, and looks at all
// others. What did not come until the end counts as late as it is then.
func (c *cluster) measureLag(during time.Duration) (all []time.Duration) {
	var mu sync.Mutex
	var running sync.WaitGroup
	end := time.Now().Add(during)
	for i := range c.nodes {
		key := fmt.Sprint("of ", i)
		var hits []time.Time // guarded by mu
		running.Go(func() {
			tick := time.NewTicker(*lagFlush)
			defer tick.Stop()
			for now := range tick.C {
				if now.After(end) {
					return
				}
				mu.Lock()
				hits = append(hits, time.Now())
				mu.Unlock()
				c.nodes[i].hit(key, 1_000_000, 1)
			}
		})
		for k, other := range c.nodes {
			if k == i {
				continue
			}
			running.Go(func() {
				for seen, last := 0, false; !last; {
					last = time.Now().After(end)
					n := totalOf(c.t, other.e, key)
					mu.Lock()
					if last {
						n = len(hits)
					}
					for ; seen < n; seen++ {
						all = append(all, time.Since(hits[seen]))
					}
					mu.Unlock()
					<-time.After(5 * time.Millisecond)
				}
			})
		}
	}
	running.Wait()
	return all
}

func totalOf(t testing.TB, e *engine.Engine, key string) int {
	got, err := e.CountAt(time.Unix(1_000_000, 0), key, time.Minute)
	if err != nil {
		t.Error(err)
	}
	return int(got.Lower)
}
