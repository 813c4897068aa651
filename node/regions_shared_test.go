package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
	"github.com/weir-counter/weir/policy"
)

const sharedByRegions = "limits:\n- {name: api, keys: \"api:*\", limit: %d, per: 1h, where: global, within: shared}\n"

func sharedSet(t *testing.T, burst int) *policy.Set {
	t.Helper()
	set, err := policy.Parse("limits.yaml", fmt.Appendf(nil, sharedByRegions, burst))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// allow asks for one admission of api:bob.
func allow(t *testing.T, c *client.Client) api.AllowAnswer {
	t.Helper()
	d, err := c.Allow(t.Context(), client.Check{Key: "api:bob"})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// eventually waits until a server says something of api:bob.
func eventually(t *testing.T, what string, c *client.Client, says func(l api.LimitState) bool) {
	t.Helper()
	var last string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s; last: %s", what, last)
		}
	})
	transporttest.Eventually(t, what, func() bool {
		d, err := c.Peek(t.Context(), client.Check{Key: "api:bob"})
		last = fmt.Sprintf("%+v, %v", d, err)
		return err == nil && says(d.Limits[0])
	})
}

// knowsOthers waits until a server knows so many admissions of other regions. On a busy machine a region may be late all the time.
func knowsOthers(t *testing.T, c *client.Client, others uint64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d admissions of others are known", others), c, func(l api.LimitState) bool { return l.Others == others })
}

// Requests that go from region to region, each once word of the one before is there, never get more than the burst; while a region is
// away decisions go on and name it, and what it admitted goes with it.
func TestLimitSharedByRegions(t *testing.T) {
	t.Parallel()
	names := []string{"eu", "us", "ap"}
	const burst = 7
	w := newRegionsWith(t, 100*time.Millisecond, mesh(names...), func(cfg *node.Config) { cfg.Policies.Set = sharedSet(t, burst) }, names...)
	var admitted [3]uint64
	began := time.Now()
	for i := range burst + 3 {
		at := i % 3
		d := allow(t, w.asks[at])
		if d.Allowed != (i < burst) || d.Limits[0].Remaining != uint64(max(0, burst-1-i)) {
			t.Fatalf("request %d: %+v", i, d)
		}
		if d.Allowed {
			admitted[at]++
		} else if took := time.Since(began).Seconds(); d.RetryAfterSeconds < 3500-took || d.RetryAfterSeconds > 3700 {
			t.Errorf("retry after %v s, %v s after the first request", d.RetryAfterSeconds, took)
		}
		next := (at + 1) % 3
		knowsOthers(t, w.asks[next], admitted[(next+1)%3]+admitted[(next+2)%3])
	}
	why, err := w.asks[0].Why(t.Context(), allow(t, w.asks[0]).Denial)
	if err != nil || why.Limits[0].Others != 4 || len(why.Limits[0].Admissions) != 3 || why.Limits[0].Enough != nil {
		t.Errorf("%+v, %v", why, err)
	}
	figures := metricsOf(t, w.nodes[1], "weir_limit_regions_")
	if over, is := figures["weir_limit_regions_over{limit=\"api\"}"]; over != 0 || !is || len(figures) != 2 {
		t.Errorf("metrics: %v", figures)
	}
	keys, err := w.asks[1].LimitKeys(t.Context(), "api", 10)
	if err != nil || len(keys.Keys) != 1 || keys.Keys[0].Used != burst || keys.Keys[0].Others != 5 || keys.Keys[0].Remaining != 0 {
		t.Errorf("%+v, %v", keys, err)
	}
	limits, err := w.asks[1].Limits(t.Context(), time.Hour)
	if err != nil || !limits.Limits[0].Global || limits.Limits[0].Where != "shared" || limits.Limits[0].Regions != nil {
		t.Errorf("%+v, %v", limits, err)
	}

	w.stop(2)
	eventually(t, "ap is late", w.asks[0], func(l api.LimitState) bool { return slices.Contains(l.Late, "ap") })
	if d := allow(t, w.asks[0]); d.Allowed || d.Limits[0].Others != 4 {
		t.Errorf("while ap is away: %+v", d)
	}
	if err := w.asks[0].ForgetRegion(t.Context(), "ap"); err != nil {
		t.Fatal(err)
	}
	knowsOthers(t, w.asks[0], 2)
	for i := range 3 {
		if d := allow(t, w.asks[0]); d.Allowed != (i < 2) {
			t.Errorf("without ap: %+v", d)
		}
	}
}

// In a region of several nodes each knows what its own admitted once, and what other regions did.
func TestLimitSharedByRegionsOfNodes(t *testing.T) {
	t.Parallel()
	const burst = 8
	set, members := sharedSet(t, burst), transporttest.New(t, 3, nil)
	addrs := transporttest.Addrs(t, 4)
	nodes, asks := make([]*node.Node, 4), make([]*client.Client, 4)
	var starting sync.WaitGroup
	ctx, failed := context.WithTimeout(t.Context(), transporttest.Patience)
	defer failed()         // nodes of a cluster wait for each other
	for i := range nodes { // the first three are us, the last is eu
		cfg := node.Config{Logger: transporttest.Logger(t, slog.LevelWarn)}
		cfg.HTTP.Addr, cfg.Policies.Set = addrs[i], set
		cfg.Engine.Memory, cfg.Engine.LimitMemory = 64<<20, 1<<20
		cfg.Journal.FlushEvery = 20 * time.Millisecond
		cfg.Regions = node.Regions{Region: "eu", Every: 100 * time.Millisecond, Memory: 32 << 20, Links: []string{"us=http://" + addrs[0]}}
		if i < 3 {
			cfg.Journal.Dir, cfg.Journal.Join = members.Configs[i].Dir, members.Configs[i]
			cfg.Regions.Region, cfg.Regions.Links = "us", []string{"eu=http://" + addrs[3]}
		} else {
			cfg.Journal.Dir = t.TempDir()
		}
		var err error
		if asks[i], err = client.New("http://"+addrs[i], client.Options{}); err != nil {
			t.Fatal(err)
		}
		starting.Go(func() {
			if nodes[i], err = node.Start(ctx, cfg); err != nil {
				t.Errorf("node %d does not start: %v", i, err)
				failed()
			}
		})
	}
	starting.Wait()
	t.Cleanup(func() { nodetest.Close(t, nodes...) })
	if t.Failed() {
		t.FailNow()
	}
	left := func(at int, want uint64) {
		t.Helper()
		eventually(t, fmt.Sprintf("node %d knows that %d are left", at, want), asks[at], func(l api.LimitState) bool { return l.Remaining == want })
	}
	for i := range burst {
		if d := allow(t, asks[i%4]); !d.Allowed {
			t.Fatalf("request %d: %+v", i, d)
		}
		left((i+1)%4, uint64(burst-1-i))
	}
	for i := range 4 {
		left(i, 0)
		others := uint64(2)
		if i == 3 {
			others = 6
		}
		knowsOthers(t, asks[i], others)
		d := allow(t, asks[i])
		if d.Allowed {
			t.Errorf("node %d: %+v", i, d)
		}
		if why, err := asks[i].Why(t.Context(), d.Denial); err != nil || why.Limits[0].Where != "shared" {
			t.Errorf("node %d: %+v, %v", i, why, err)
		}
	}
}
