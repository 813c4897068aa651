package durable

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
)

// cluster is nodes of one cluster in this process, each with an engine and a
// journal of its own.
type cluster struct {
	t        *testing.T
	engine   engine.Config
	cfgs     []Config
	nodes    []*running                // nil: stopped
	engineOf func(i int) engine.Config // nil: engine
}

func newCluster(t *testing.T, nodes int) *cluster {
	t.Helper()
	c := &cluster{t: t, engine: engineConfig(), nodes: make([]*running, nodes)}
	addrs := transporttest.Addrs(t, nodes)
	for i := range nodes {
		cfg := testConfig(t, t.TempDir())
		cfg.SnapshotBytes = 1 << 20
		cfg.Join = transport.Config{Cluster: "test", Node: fmt.Sprintf("n%d", i+1), Addr: addrs[i], Peers: addrs, Secret: transporttest.Secret}
		c.cfgs = append(c.cfgs, cfg)
	}
	return c
}

// start starts all nodes that do not run, at once: the first time a cluster needs
// all.
func (c *cluster) start() {
	c.t.Helper()
	type started struct {
		i   int
		r   *running
		err error
	}
	results := make(chan started)
	waiting := 0
	for i, node := range c.nodes {
		if node == nil {
			waiting++
			go func() {
				r, err := c.open(i)
				results <- started{i, r, err}
			}()
		}
	}
	for range waiting {
		s := <-results
		if s.err != nil {
			c.t.Fatalf("node %d: %v", s.i+1, s.err)
		}
		c.nodes[s.i] = s.r
		c.t.Cleanup(s.r.crash)
	}
}

func (c *cluster) open(i int) (*running, error) {
	config := c.engine
	if c.engineOf != nil {
		config = c.engineOf(i)
	}
	e, err := engine.New(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), transporttest.Patience)
	defer cancel()
	j, err := Open(ctx, e, c.cfgs[i], nil)
	if err != nil {
		return nil, err
	}
	return &running{c.t, e, j}, nil
}

// agree waits until all nodes give the wanted totals.
func (c *cluster) agree(want map[string]uint64) {
	c.t.Helper()
	deadline := time.Now().Add(transporttest.Patience)
	for {
		wrong := ""
		for i, node := range c.nodes {
			if node == nil {
				continue
			}
			for key, n := range want {
				if got, err := node.e.Count(key, time.Hour); err != nil || got.Lower != n || got.Upper != n {
					wrong = fmt.Sprintf("node %d counts %+v of %s, want %d, %v", i+1, got, key, n, err)
				}
			}
		}
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal(wrong)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestNodesCountTogether(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start()
	random := rand.New(rand.NewPCG(1, 2))
	want := map[string]uint64{}
	hit := func(hits int) {
		for range hits {
			node := c.nodes[random.IntN(3)]
			if node == nil {
				continue
			}
			key, n := fmt.Sprint("k", random.IntN(20)), 1+random.Uint64N(5)
			if _, err := node.e.HitAt(time.Unix(1_000_000+random.Int64N(300), 0), key, n); err != nil {
				t.Fatal(err)
			}
			want[key] += n
			want[engine.AllKeys] += n
		}
	}
	hit(3000)
	c.agree(want)
	for i, node := range c.nodes {
		transporttest.Eventually(t, fmt.Sprintf("no node is late, as node %d knows", i+1), func() bool {
			_, late := node.j.LateOrigins()
			return len(late) == 0
		})
		if got := node.j.Origins(); len(got) != 3 {
			t.Errorf("node %d knows %+v", i+1, got)
		}
	}

	// One dies with all it has on disk; the others go on; it comes back.
	if err := c.nodes[1].j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.nodes[1].crash()
	c.nodes[1] = nil
	hit(1000)
	c.agree(want)
	c.start()
	c.agree(want)
	hit(1000)
	c.agree(want)

	// One stops and leaves; nobody waits for it.
	c.nodes[2].close()
	c.nodes[2] = nil
	hit(500)
	c.agree(want)
	for _, o := range c.nodes[0].j.Origins() {
		if o.Node == "n3" && (!o.Left || o.Late) {
			t.Errorf("n3 has left: %+v", o)
		}
	}
	c.start()
	c.agree(want)
	for i, node := range c.nodes {
		if s := node.j.Stats(); s.Divergence+s.Holes != 0 {
			t.Errorf("node %d: %+v", i+1, s)
		}
	}
}

// A first start that is interrupted while it waits for the others can be made again. There are no counts with which
// the node could leave the cluster.
func TestFirstStartAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	e, err := engine.New(engineConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if j, err := Open(ctx, e, c.cfgs[0], nil); err == nil {
		t.Fatalf("%v began alone", j)
	}
	single := c.cfgs[0]
	single.Join = single.Join.Alone()
	wantError(t, refused(t, single), "never joined")
	single.LeaveCluster = true
	wantError(t, refused(t, single), "never joined")
	c.start()
	c.nodes[0].hit("k", 1_000_000, 1)
	c.agree(map[string]uint64{"k": 1})
}
