package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/journal/join/jointest"
)

// processes is a cluster of real ones, with a network between them that can be
// cut.
type processes struct {
	t       *testing.T
	network *network
	listen  []string // cluster ports
	addrs   []string // of the proxies before them
	dirs    []string
	nodes   []atomic.Pointer[process] // nil: it does not run
	writers []*clusterWriter
	marks   int
}

const clusterSize = 3

func newProcesses(t *testing.T) *processes {
	t.Setenv("WEIR_CLUSTER_SECRET", jointest.Secret)
	ports := jointest.Addrs(t, 2*clusterSize)
	c := &processes{t: t, network: newNetwork(t), listen: ports[:clusterSize], addrs: ports[clusterSize:], nodes: make([]atomic.Pointer[process], clusterSize)}
	for i := range clusterSize {
		c.dirs = append(c.dirs, t.TempDir())
		c.writers = append(c.writers, &clusterWriter{c: c, node: i})
		c.network.proxy(t, c.name(i), c.addrs[i], c.listen[i])
	}
	return c
}

func (c *processes) name(i int) string { return fmt.Sprintf("n%d", i+1) }

// start starts nodes at the same time: the first time a cluster needs all.
func (c *processes) start(nodes ...int) {
	c.t.Helper()
	launched := map[int]*process{}
	for _, i := range nodes {
		launched[i] = launch(c.t, c.dirs[i], "--cluster", "test", "--node", c.name(i), "--snapshot-every", "64KiB",
			"--cluster-addr", c.addrs[i], "--cluster-listen", c.listen[i], "--peers", c.addrs[0]+","+c.addrs[1]+","+c.addrs[2])
	}
	for i, p := range launched {
		select {
		case p.addr = <-p.serving:
		case <-time.After(jointest.Patience):
			_ = p.Process.Kill() // its log says why
		}
		if p.addr == "" {
			c.t.Fatalf("%s did not start:\n%s", c.name(i), <-p.log)
		}
		c.nodes[i].Store(p)
		go c.writers[i].watch(c.t.Context(), p)
	}
}

// kill ends a node without warning.
func (c *processes) kill(i int) {
	c.t.Helper()
	p := c.nodes[i].Swap(nil)
	c.writers[i].killed(time.Now())
	if _, err := p.end(c.t, syscall.SIGKILL); err == nil {
		c.t.Fatal("the process ended well in spite of SIGKILL")
	}
}

// stop ends nodes at the same time, as a supervisor does.
func (c *processes) stop(nodes ...int) {
	c.t.Helper()
	var stopping sync.WaitGroup
	for _, i := range nodes {
		p := c.nodes[i].Swap(nil)
		stopping.Go(func() {
			if log, err := p.end(c.t, syscall.SIGTERM); err != nil {
				c.t.Errorf("%s: SIGTERM: %v\n%s", c.name(i), err, log)
			}
		})
	}
	stopping.Wait()
}

// postUntilTaken sends a durable hit to a node until it is answered.
func (c *processes) postUntilTaken(i int, key, id string) {
	for end := time.Now().Add(jointest.Patience); ; <-time.After(20 * time.Millisecond) {
		if p := c.nodes[i].Load(); p != nil && p.post(key, 1, id, true) {
			return
		}
		if time.Now().After(end) {
			c.t.Errorf("%s does not take a durable hit within %v", c.name(i), jointest.Patience)
			return
		}
	}
}

// converge returns how long it takes until a durable hit to each node is counted
// by all, and nobody is called late.
func (c *processes) converge(what string) time.Duration {
	c.t.Helper()
	began := time.Now()
	c.marks++
	key := fmt.Sprint("mark:", c.marks)
	var hitting sync.WaitGroup
	for i := range c.nodes {
		hitting.Go(func() { c.postUntilTaken(i, key, key+c.name(i)) })
	}
	hitting.Wait()
	jointest.Eventually(c.t, what+": all nodes count all marks, and none is late", func() bool {
		for i, n := range c.counts(key) {
			if n != uint64(len(c.nodes)) || len(c.cluster(i).Late) > 0 {
				return false
			}
		}
		return true
	})
	return time.Since(began)
}

// counts asks each node for a key.
func (c *processes) counts(key string) (counts []uint64) {
	for i := range c.nodes {
		counts = append(counts, c.nodes[i].Load().count(c.t, key))
	}
	return counts
}

func (c *processes) cluster(i int) client.Cluster {
	c.t.Helper()
	asked, err := client.New(c.nodes[i].Load().addr, client.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	cluster, err := asked.Cluster(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	return cluster
}

// empty is what a new machine has in place of a node's directory.
func (c *processes) empty(i int) {
	c.t.Helper()
	if err := os.RemoveAll(c.dirs[i]); err != nil {
		c.t.Fatal(err)
	}
}
