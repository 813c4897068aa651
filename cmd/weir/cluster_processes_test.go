package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// processes is a cluster of real ones, with a network between them that can be
// cut.
type processes struct {
	t       *testing.T
	network network
	flags   []string   // of all nodes
	own     [][]string // further ones, of each
	listen  []string   // cluster ports
	addrs   []string   // where the others reach them
	dirs    []string
	nodes   []atomic.Pointer[process] // nil: it does not run
	writers []*clusterWriter
	marks   int
}

const clusterSize = 3

// newProcesses are nodes on loopback, with proxies between them.
func newProcesses(t *testing.T, flags ...string) *processes {
	ports, between := transporttest.Addrs(t, 2*clusterSize), newLoopback(t)
	c := newProcessesIn(t, between, ports[:clusterSize], ports[clusterSize:], flags...)
	for i := range clusterSize {
		between.Before(t, c.name(i), c.addrs[i], c.listen[i])
	}
	return c
}

func newProcessesIn(t *testing.T, network network, listen, addrs []string, flags ...string) *processes {
	c := &processes{t: t, network: network, flags: flags, own: make([][]string, clusterSize), listen: listen, addrs: addrs, nodes: make([]atomic.Pointer[process], clusterSize)}
	for i := range clusterSize {
		c.dirs = append(c.dirs, t.TempDir())
		c.writers = append(c.writers, &clusterWriter{c: c, node: i})
	}
	return c
}

func (c *processes) name(i int) string { return fmt.Sprintf("n%d", i+1) }

// start starts nodes at the same time: the first time a cluster needs all.
func (c *processes) start(nodes ...int) {
	c.t.Helper()
	var starting sync.WaitGroup
	for _, i := range nodes {
		p := c.launch(i)
		starting.Go(func() { c.await(i, p) })
	}
	starting.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (c *processes) launch(i int) *process {
	return launchWithin(c.t, c.network.within(i), c.dirs[i], slices.Concat([]string{"--cluster", "test", "--cluster-secret-file", secretFile(c.t), "--node", c.name(i), "--snapshot-every", "64KiB", "--durable-timeout", "25s",
		"--cluster-addr", c.addrs[i], "--cluster-listen", c.listen[i], "--peers", c.addrs[0] + "," + c.addrs[1] + "," + c.addrs[2]}, c.flags, c.own[i])...)
}

// await returns when a node serves. From then on it is started again when it ends
// by itself, as a supervisor does; it may do so only where the journal was trimmed
// beyond what it has, or where its embedded server does not stop.
func (c *processes) await(i int, p *process) {
	select {
	case p.addr = <-p.serving:
	case <-time.After(transporttest.Patience):
		_ = p.Process.Kill() // its log says what it waited for
	}
	if p.addr == "" {
		c.t.Errorf("%s did not start:\n%s", c.name(i), <-p.log)
		return
	}
	p.addr = c.network.reach(i, p.addr)
	c.nodes[i].Store(p)
	c.writers[i].began(p)
	go func() {
		<-p.ended
		if c.t.Context().Err() != nil || !c.nodes[i].CompareAndSwap(p, nil) {
			return // it was asked to
		}
		log, err := <-p.log, p.Wait()
		if !strings.Contains(log, "trimmed beyond") && !strings.Contains(log, transport.ErrStuck.Error()) {
			c.t.Errorf("%s ended by itself: %v\n%s", c.name(i), err, log)
			return
		}
		c.t.Logf("%s ended by itself, and is started again: %v", c.name(i), err)
		c.await(i, c.launch(i))
	}()
}

// kill ends a node without warning.
func (c *processes) kill(i int) {
	c.t.Helper()
	p := c.nodes[i].Swap(nil)
	c.writers[i].killed(p)
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

// postUntilTaken sends a durable hit to a node until it is answered, and at the same time to the next one: it counts once.
func (c *processes) postUntilTaken(i int, key, id string) {
	var again sync.WaitGroup
	defer again.Wait()
	if p := c.nodes[(i+1)%len(c.nodes)].Load(); p != nil {
		again.Go(func() { p.post(key, 1, id, true) })
	}
	for end := time.Now().Add(transporttest.Patience); ; <-time.After(20 * time.Millisecond) {
		if p := c.nodes[i].Load(); p != nil && p.post(key, 1, id, true) {
			return
		}
		if time.Now().After(end) {
			c.t.Errorf("%s does not take a durable hit within %v", c.name(i), transporttest.Patience)
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
	transporttest.Eventually(c.t, what+": all nodes count all marks, and none is late", func() bool {
		for i, n := range c.counts(key) {
			if n != uint64(len(c.nodes)) {
				return false
			}
			if cluster, ok := c.cluster(i); !ok || len(cluster.Late) > 0 {
				return false
			}
		}
		return true
	})
	return time.Since(began)
}

// unknown is the count of a node that does not answer.
const unknown = ^uint64(0)

// counts asks each node for a key, whose hits are all of the last day.
func (c *processes) counts(key string) []uint64 {
	counts := make([]uint64, len(c.nodes))
	for i := range c.nodes {
		counts[i] = unknown
		if asked, ok := c.client(i); ok {
			answers, err := asked.Count(c.t.Context(), client.CountQuery{Keys: []string{key}, Windows: []time.Duration{24 * time.Hour}})
			if err == nil && answers[0].Exact {
				counts[i] = answers[0].Estimate
			}
		}
	}
	return counts
}

func (c *processes) cluster(i int) (cluster api.ClusterAnswer, ok bool) {
	asked, ok := c.client(i)
	if !ok {
		return cluster, false
	}
	cluster, err := asked.Cluster(c.t.Context())
	return cluster, err == nil
}

func (c *processes) client(i int) (asked *client.Client, ok bool) {
	p := c.nodes[i].Load()
	if p == nil {
		return nil, false
	}
	// One pool of connections: a client of its own would leave one behind at each poll.
	asked, err := client.New(p.addr, client.Options{Retries: -1, HTTPClient: http.DefaultClient})
	return asked, err == nil
}

// empty is what a new machine has in place of a node's directory.
func (c *processes) empty(i int) {
	c.t.Helper()
	if err := os.RemoveAll(c.dirs[i]); err != nil {
		c.t.Fatal(err)
	}
}

// secretFile writes the secret of a cluster to a file that is removed with the test.
func secretFile(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(transporttest.Secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
