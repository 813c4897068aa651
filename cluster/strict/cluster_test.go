package strict

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/checks"
	"github.com/weir-counter/weir/cluster/join"
	"github.com/weir-counter/weir/cluster/join/jointest"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/journal"
	"github.com/weir-counter/weir/policy"
)

// testTTL is short, so that tests see many holders.
const testTTL = 3 * time.Second

// cluster is nodes of one cluster in this process.
type cluster struct {
	t        testing.TB
	policies *policy.Set
	deadline time.Duration // of questions; 0: the default
	cfgs     []journal.Config
	clocks   [3]time.Duration // by how much those of the nodes are ahead

	mu    sync.Mutex
	nodes []*node // nil: down
}

// node is one life of a node.
type node struct {
	engine  *weir.Engine
	journal *journal.Journal
	strict  *Strict
	live    *policy.Live
	lender  *lateLender
}

// lateLender answers one change late, after it was made.
type lateLender struct {
	alone
	late atomic.Int64 // ns
}

func (l *lateLender) Decide(group int, q checks.Question) (checks.Answer, error) {
	a, err := l.alone.Decide(group, q)
	if q.Change.Kind != limits.NoChange {
		time.Sleep(time.Duration(l.late.Swap(0)))
	}
	return a, err
}

func newCluster(t testing.TB, policies string, flushEvery time.Duration) *cluster {
	t.Helper()
	return newClusterWithin(t, policies, flushEvery, 0)
}

func newClusterWithin(t testing.TB, policies string, flushEvery, deadline time.Duration) *cluster {
	t.Helper()
	const size = 3
	set, err := policy.Parse("p.yaml", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, policies: set, deadline: deadline, nodes: make([]*node, size)}
	addrs := jointest.Addrs(t, size)
	for i := range size {
		c.cfgs = append(c.cfgs, journal.Config{
			Dir: t.TempDir(), FlushEvery: flushEvery, SnapshotBytes: 1 << 20,
			Join:   join.Config{Cluster: "test", Node: fmt.Sprintf("n%d", i+1), Addr: addrs[i], Peers: addrs, Secret: jointest.Secret},
			Logger: jointest.Logger(t, slog.LevelError+1),
		})
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.crash(i)
		}
	})
	c.start()
	return c
}

// start starts all nodes that are down, at once.
func (c *cluster) start() {
	c.t.Helper()
	var starting sync.WaitGroup
	for i := range c.nodes {
		if c.at(i) == nil {
			starting.Go(func() {
				n, err := c.open(i)
				if err != nil {
					c.t.Errorf("node %d: %v", i+1, err)
					return
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				c.nodes[i] = n
			})
		}
	}
	starting.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (c *cluster) open(i int) (*node, error) {
	n := &node{}
	var err error
	if n.engine, err = weir.New(weir.Config{Partitions: 32, Gather: true, Now: func() time.Time { return time.Now().Add(c.clocks[i]) }}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), jointest.Patience)
	defer cancel()
	if n.journal, err = journal.Open(ctx, n.engine, c.cfgs[i], nil); err != nil {
		return nil, err
	}
	name := c.cfgs[i].Join.Node
	n.lender = &lateLender{alone: alone{n.engine}}
	n.strict, err = Open(ctx, Config{Journal: n.journal, Engine: n.engine, Lender: n.lender, Node: name, Deadline: c.deadline, TTL: testTTL, Logger: c.cfgs[i].Logger})
	if err != nil {
		return nil, err
	}
	n.live, err = policy.NewClusterLive(n.engine, c.policies, policy.Cluster{Node: name, Nodes: func() int { return len(c.nodes) }, Strict: n.strict})
	return n, err
}

func (c *cluster) at(i int) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

func (c *cluster) down(i int) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[i]
	c.nodes[i] = nil
	return n
}

// crash ends a node as kill -9 would: nothing is flushed, no lease given back.
func (c *cluster) crash(i int) {
	n := c.down(i)
	if n == nil {
		return
	}
	n.journal.Joined().Close() // before anything else can be said
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.strict.Close(over)  // it can't give leases back
	_ = n.journal.Close(over) // nor flush
	n.engine.Close()
}

// leave stops a node as it should be stopped.
func (c *cluster) leave(i int) {
	c.t.Helper()
	n := c.down(i)
	ctx, cancel := context.WithTimeout(context.Background(), jointest.Patience)
	defer cancel()
	if err := n.strict.Close(ctx); err != nil {
		c.t.Errorf("node %d: %v", i+1, err)
	}
	if err := n.journal.Close(ctx); err != nil {
		c.t.Errorf("node %d: %v", i+1, err)
	}
	n.engine.Close()
}

// holder waits until one node decides for a key, and returns it.
func (c *cluster) holder(key string) (holder int) {
	c.t.Helper()
	jointest.Eventually(c.t, "a node decides for "+key, func() bool {
		for i := range c.nodes {
			if n := c.at(i); n != nil {
				if _, ok := n.strict.holds(&n.strict.groups[n.strict.Group(key)]); ok {
					holder = i
					return true
				}
			}
		}
		return false
	})
	return holder
}

// decided waits until a node has its strict limits decided.
func (c *cluster) decided(i int, key string) {
	c.t.Helper()
	jointest.Eventually(c.t, fmt.Sprintf("node %d gets answers for %s", i+1, key), func() bool {
		var d policy.Decision
		if err := c.at(i).live.Peek([]policy.Request{{Key: key, N: 1}}, &d); err != nil {
			c.t.Fatal(err)
		}
		return d.Results[0].Away == ""
	})
}

// take asks one node for one admission.
func (c *cluster) take(i int, key string) policy.Decision {
	c.t.Helper()
	var d policy.Decision
	if err := c.at(i).live.Take([]policy.Request{{Key: key, N: 1}}, &d); err != nil {
		c.t.Fatal(err)
	}
	return d
}

// takeDecided is take, again while nobody decides: leases move when nodes come.
func (c *cluster) takeDecided(i int, key string) (d policy.Decision) {
	c.t.Helper()
	jointest.Eventually(c.t, fmt.Sprintf("node %d gets a decision for %s", i+1, key), func() bool {
		d = c.take(i, key)
		return d.Results[0].Away == ""
	})
	return d
}
