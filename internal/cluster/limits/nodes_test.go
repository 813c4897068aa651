package limits

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// ClusterSize is how many nodes a cluster has.
const ClusterSize = 3

// ClusterNode is one life of a node.
type ClusterNode struct {
	Engine  *engine.Engine
	Journal *durable.Journal
	Decider *Limits
	Live    *admit.Live
}

// Cluster is nodes of one cluster in a test's process, that decide limits together. Nodes crash, leave and come back.
type Cluster struct {
	Policies *policy.Set
	Clocks   [ClusterSize]time.Duration // by how much each node's clock is ahead, from its next start on

	t        testing.TB
	deadline time.Duration
	cfgs     []durable.Config
	lost     atomic.Int64

	mu    sync.Mutex
	nodes [ClusterSize]*ClusterNode // nil: down
}

// NewCluster starts a cluster with the policies of a file, and with a deadline of questions; 0: the default.
func NewCluster(t testing.TB, policies string, flushEvery, deadline time.Duration) *Cluster {
	t.Helper()
	set, err := policy.Parse("p.yaml", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Policies: set, t: t, deadline: deadline}
	addrs := transporttest.Addrs(t, ClusterSize)
	for i := range ClusterSize {
		c.cfgs = append(c.cfgs, durable.Config{
			Dir: t.TempDir(), FlushEvery: flushEvery, SnapshotBytes: 1 << 20,
			Join:   transport.Config{Cluster: "test", Node: fmt.Sprintf("n%d", i+1), Addr: addrs[i], Peers: addrs, Secret: transporttest.Secret},
			Logger: transporttest.Logger(t, slog.LevelError+1),
		})
	}
	t.Cleanup(func() {
		for i := range ClusterSize {
			c.Crash(i)
		}
	})
	c.Start()
	return c
}

// Start starts all nodes that are down, at once.
func (c *Cluster) Start() {
	c.t.Helper()
	var starting sync.WaitGroup
	for i := range ClusterSize {
		if c.At(i) == nil {
			starting.Go(func() {
				n, err := c.start(i)
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

func (c *Cluster) start(i int) (*ClusterNode, error) {
	n := &ClusterNode{}
	var err error
	if n.Engine, err = engine.New(engine.Config{Partitions: 32, Gather: true, Now: func() time.Time { return time.Now().Add(c.Clocks[i]) }}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), transporttest.Patience)
	defer cancel()
	if n.Journal, err = durable.Open(ctx, n.Engine, c.cfgs[i], nil); err != nil {
		return nil, err
	}
	name := c.cfgs[i].Join.Node
	if n.Decider, err = Open(Config{Journal: n.Journal, Engine: n.Engine, Node: name, Deadline: c.deadline, Logger: c.cfgs[i].Logger}); err != nil {
		return nil, err
	}
	n.Live, err = admit.NewClusterLive(n.Engine, c.Policies, admit.Cluster{Node: name, Owners: n.Decider})
	return n, err
}

// At is a node; nil: it is down.
func (c *Cluster) At(i int) *ClusterNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

func (c *Cluster) down(i int) *ClusterNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[i]
	c.nodes[i] = nil
	return n
}

// Crash ends a node as kill -9 would: nothing is flushed, no lease given back.
func (c *Cluster) Crash(i int) {
	n := c.down(i)
	if n == nil {
		return
	}
	n.Journal.Joined().Close() // before anything else can be said
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.Decider.Close(over) // it can't give leases back
	_ = n.Journal.Close(over) // nor flush
	n.Engine.Close()
}

// Leave stops a node as it should be stopped.
func (c *Cluster) Leave(i int) {
	c.t.Helper()
	n := c.down(i)
	ctx, cancel := context.WithTimeout(context.Background(), transporttest.Patience)
	defer cancel()
	if err := n.Decider.Close(ctx); err != nil {
		c.t.Errorf("node %d: %v", i+1, err)
	}
	if err := n.Journal.Close(ctx); err != nil {
		c.t.Errorf("node %d: %v", i+1, err)
	}
	n.Engine.Close()
}

// Faults are what Fail does to a node.
var Faults = []string{"crash", "leave", "cut off", "restart"}

// Fail ends a node by one of Faults. A node that is cut off runs on for a time and answers, without knowing what the
// others do. A node that restarts is back at once, and its leases have not ended.
func (c *Cluster) Fail(i int, fault string, cutOff time.Duration) {
	c.t.Helper()
	switch fault {
	case "crash":
		c.Crash(i)
	case "leave":
		c.Leave(i)
	case "cut off":
		c.At(i).Journal.Joined().Close()
		<-time.After(cutOff)
		c.Crash(i)
	case "restart":
		c.Crash(i)
		c.Start()
	}
}

// Decided waits until a node has the limits of a key decided.
func (c *Cluster) Decided(i int, key string) {
	c.t.Helper()
	transporttest.Eventually(c.t, fmt.Sprintf("node %d gets answers for %s", i+1, key), func() bool {
		var d admit.Decision
		if err := c.At(i).Live.Peek([]admit.Request{{Key: key, N: 1}}, &d); err != nil {
			c.t.Fatal(err)
		}
		return d.Results[0].Away == ""
	})
}

// Take asks one node for one admission.
func (c *Cluster) Take(i int, key string) admit.Decision {
	c.t.Helper()
	var d admit.Decision
	if err := c.At(i).Live.Take([]admit.Request{{Key: key, N: 1}}, &d); err != nil {
		c.t.Fatal(err)
	}
	return d
}

// TakeDecided is Take, again while nobody decides: leases move when nodes come. On a slow machine what was asked
// for in vain may have been admitted nevertheless, with the answer lost: c.Lost says how often.
func (c *Cluster) TakeDecided(i int, key string) (d admit.Decision) {
	c.t.Helper()
	transporttest.Eventually(c.t, fmt.Sprintf("node %d gets a decision for %s", i+1, key), func() bool {
		d = c.Take(i, key)
		if d.Results[0].Away != "" {
			c.lost.Add(1)
			return false
		}
		return true
	})
	return d
}

// Lost is how many admissions TakeDecided asked for without a decision, in all: each may be used.
func (c *Cluster) Lost() int { return int(c.lost.Load()) }
