// Package clustertest starts, in a test's process, clusters of nodes that decide limits together. Each node has an
// engine, a journal, and the decider that the test supplies. Nodes crash, leave and come back. Its Log records every
// answer that callers got, and compares the admissions with what a limit may admit.
package clustertest

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

// Size is how many nodes a cluster has.
const Size = 3

// Opening is a node of which the engine and the journal are open.
type Opening struct {
	Engine  *engine.Engine
	Journal *durable.Journal
	Name    string
	Logger  *slog.Logger
}

// Decider is what decides on a node.
type Decider interface {
	// Close gives leases back, as long as ctx lasts.
	Close(ctx context.Context) error
}

// Node is one life of a node.
type Node[D Decider] struct {
	Engine  *engine.Engine
	Journal *durable.Journal
	Decider D
	Live    *admit.Live
}

// Cluster is nodes of one cluster.
type Cluster[D Decider] struct {
	Policies *policy.Set
	Clocks   [Size]time.Duration // by how much each node's clock is ahead, from its next start on

	t    testing.TB
	open func(context.Context, Opening) (D, admit.Cluster, error)
	cfgs []durable.Config
	lost atomic.Int64

	mu    sync.Mutex
	nodes [Size]*Node[D] // nil: down
}

// New starts a cluster with the policies of a file. open makes what decides on a node, and the Strict and Leased of
// its policies.
func New[D Decider](t testing.TB, policies string, flushEvery time.Duration, open func(context.Context, Opening) (D, admit.Cluster, error)) *Cluster[D] {
	t.Helper()
	set, err := policy.Parse("p.yaml", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster[D]{Policies: set, t: t, open: open}
	addrs := transporttest.Addrs(t, Size)
	for i := range Size {
		c.cfgs = append(c.cfgs, durable.Config{
			Dir: t.TempDir(), FlushEvery: flushEvery, SnapshotBytes: 1 << 20,
			Join:   transport.Config{Cluster: "test", Node: fmt.Sprintf("n%d", i+1), Addr: addrs[i], Peers: addrs, Secret: transporttest.Secret},
			Logger: transporttest.Logger(t, slog.LevelError+1),
		})
	}
	t.Cleanup(func() {
		for i := range Size {
			c.Crash(i)
		}
	})
	c.Start()
	return c
}

// Start starts all nodes that are down, at once.
func (c *Cluster[D]) Start() {
	c.t.Helper()
	var starting sync.WaitGroup
	for i := range Size {
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

func (c *Cluster[D]) start(i int) (*Node[D], error) {
	n := &Node[D]{}
	var err error
	if n.Engine, err = engine.New(engine.Config{Partitions: 32, Gather: true, Now: func() time.Time { return time.Now().Add(c.Clocks[i]) }}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), transporttest.Patience)
	defer cancel()
	if n.Journal, err = durable.Open(ctx, n.Engine, c.cfgs[i], nil); err != nil {
		return nil, err
	}
	of := Opening{Engine: n.Engine, Journal: n.Journal, Name: c.cfgs[i].Join.Node, Logger: c.cfgs[i].Logger}
	var decided admit.Cluster
	if n.Decider, decided, err = c.open(ctx, of); err != nil {
		return nil, err
	}
	decided.Node = of.Name
	n.Live, err = admit.NewClusterLive(n.Engine, c.Policies, decided)
	return n, err
}

// At is a node; nil: it is down.
func (c *Cluster[D]) At(i int) *Node[D] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

func (c *Cluster[D]) down(i int) *Node[D] {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[i]
	c.nodes[i] = nil
	return n
}

// Crash ends a node as kill -9 would: nothing is flushed, no lease given back.
func (c *Cluster[D]) Crash(i int) {
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
func (c *Cluster[D]) Leave(i int) {
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
func (c *Cluster[D]) Fail(i int, fault string, cutOff time.Duration) {
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
func (c *Cluster[D]) Decided(i int, key string) {
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
func (c *Cluster[D]) Take(i int, key string) admit.Decision {
	c.t.Helper()
	var d admit.Decision
	if err := c.At(i).Live.Take([]admit.Request{{Key: key, N: 1}}, &d); err != nil {
		c.t.Fatal(err)
	}
	return d
}

// TakeDecided is Take, again while nobody decides: leases move when nodes come. On a slow machine what was asked
// for in vain may have been admitted nevertheless, with the answer lost: c.Lost says how often.
func (c *Cluster[D]) TakeDecided(i int, key string) (d admit.Decision) {
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
func (c *Cluster[D]) Lost() int { return int(c.lost.Load()) }
