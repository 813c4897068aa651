package main

import (
	"flag"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	clusterRounds = flag.Int("cluster-rounds", 0, "how often TestClusterCrash and TestClusterNamespaces, and each OfShares, go through all that may happen to a node; 0: once, the two of a pair together")
	clusterPace   = flag.Duration("cluster-pace", 250*time.Millisecond, "pause of each node's writer between its hits")
	clusterSeed   = flag.Uint64("cluster-seed", 0, "seed of both: which node, and in which order; 0: a random one")
)

// fault is what happens to a node while all take hits.
type fault struct {
	name string
	do   func(c *processes, i int)
	long bool // only where rounds are asked for
}

var killAndRestart = fault{name: "kill -9 and restart", do: func(c *processes, i int) {
	c.kill(i)
	<-time.After(time.Second)
	c.start(i)
}}

var stopAndGoOn = fault{name: "stopped for 4 s (SIGSTOP)", do: func(c *processes, i int) {
	p := c.nodes[i].Load()
	p.signal(c.t, syscall.SIGSTOP)
	<-time.After(4 * time.Second)
	p.signal(c.t, syscall.SIGCONT)
}}

// faults are those of TestClusterCrash.
var faults = []fault{
	{name: "restart of all, one after the other", long: true, do: func(c *processes, i int) {
		for k := range c.nodes {
			next := (i + k) % len(c.nodes)
			c.stop(next)
			c.start(next)
			c.converge("a rolling restart, " + c.name(next))
		}
	}},
	killAndRestart,
	{name: "cut off for 6 s", do: func(c *processes, i int) {
		c.network.Cut(c.name(i), true)
		<-time.After(6 * time.Second)
		c.network.Cut(c.name(i), false)
	}},
	{name: "killed and replaced by an empty one", do: func(c *processes, i int) {
		c.kill(i)
		c.empty(i)
		<-time.After(time.Second) // until the other two are one without it
		c.start(i)
	}},
	stopAndGoOn,
}

// inPair are the faults of one of two tests, 0 or 1, that go through them together unless
// rounds of all are asked for. The long ones are left out then.
func inPair(faults []fault, test int) (own []fault) {
	if *clusterRounds > 0 {
		return faults
	}
	for i := test; i < len(faults); i += 2 {
		if !faults[i].long {
			own = append(own, faults[i])
		}
	}
	return own
}

// Three nodes take hits, durable and plain, while one after the other is killed,
// stopped, cut off, replaced and restarted. In the end all count the same: every
// durable hit that was answered once, and every plain one but what a kill took
// from its last moments.
func TestClusterCrash(t *testing.T) {
	t.Parallel()
	crashCluster(t, newProcesses(t), inPair(faults, 0), nil)
}

// The same with nodes that hold two thirds of the partitions each, and take those of a
// node that is away for a second.
func TestClusterCrashOfShares(t *testing.T) {
	t.Parallel()
	crashCluster(t, newProcesses(t, "--replicas", "2", "--move-after", "1s"), inPair(faults, 1), nil)
}

// crashCluster goes through faults while all nodes take hits. What every node counts in the end, and check if there is one,
// is compared with what was sent, before and after a restart of all.
func crashCluster(t *testing.T, c *processes, faults []fault, check func()) {
	seed := *clusterSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-cluster-seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	began := time.Now()
	c.start(0, 1, 2)
	t.Logf("%6.2f s to start three nodes for the first time", time.Since(began).Seconds())

	stop := make(chan struct{})
	var writing sync.WaitGroup
	for _, w := range c.writers {
		writing.Go(func() { w.run(stop) })
	}
	c.converge("start")
	put := &clusterPolicy{c: c}
	put.change(random.IntN(clusterSize))
	for range max(1, *clusterRounds) {
		for _, f := range random.Perm(len(faults)) {
			i := random.IntN(clusterSize)
			began := time.Now()
			faults[f].do(c, i)
			took := time.Since(began)
			what := faults[f].name + " of " + c.name(i)
			t.Logf("%6.2f s to converge after %.2f s of: %s", c.converge(what).Seconds(), took.Seconds(), what)
			put.check()
			put.change(i)
			if t.Failed() {
				break
			}
		}
	}
	close(stop)
	writing.Wait()
	t.Logf("%6.2f s to converge after the last hit", c.converge("end").Seconds())
	c.checkAll()
	if check != nil {
		check()
	}

	c.stop(0, 1, 2)
	began = time.Now()
	c.start(0, 1, 2)
	t.Logf("%6.2f s to start all again", time.Since(began).Seconds())
	c.converge("all again")
	c.checkAll()
	if check != nil {
		check()
	}
	put.check()
	c.stop(0, 1, 2)
}

func (c *processes) checkAll() {
	c.t.Helper()
	for _, w := range c.writers {
		w.check(c.t)
	}
	for i := range c.nodes {
		if cluster, ok := c.cluster(i); !ok || cluster.Journal.Divergence+cluster.Journal.Holes != 0 || cluster.Journal.LossyFindings != 0 {
			c.t.Errorf("%s found %+v", c.name(i), cluster.Journal)
		}
	}
}
