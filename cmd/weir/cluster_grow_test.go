package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

var growRounds = flag.Int("grow-rounds", 0, "TestGrowAndShrink goes to five nodes too, and so often, with kill -9 during each change; 0: once to three, without")

// growing is nodes n1 to n5 on loopback, of which some run, and one client per node that
// sends durable hits under an idempotency key until each is answered.
type growing struct {
	t       *testing.T
	dirs    []string
	addrs   []string
	more    []string                  // further flags of all nodes
	command func(i int) []string      // in place of flags, if it is not nil
	nodes   []atomic.Pointer[process] // nil: it does not run
	sent    []atomic.Uint64           // durable hits that were answered, by node
	ids     atomic.Uint64
}

func newGrowing(t *testing.T, nodes int) *growing {
	g := &growing{t: t, addrs: transporttest.Addrs(t, nodes), nodes: make([]atomic.Pointer[process], nodes), sent: make([]atomic.Uint64, nodes)}
	for range nodes {
		g.dirs = append(g.dirs, t.TempDir())
	}
	return g
}

func (g *growing) name(i int) string { return fmt.Sprintf("n%d", i+1) }

// flags are those of node i: of a cluster with the first so many nodes, or alone.
func (g *growing) flags(i, size int) []string {
	if g.command != nil {
		return g.command(i)
	}
	return []string{"--cluster", "grown", "--node", g.name(i), "--cluster-addr", g.addrs[i], "--peers", strings.Join(g.addrs[:size], ","), "--cluster-secret-file", secretFile(g.t)}
}

func (g *growing) launch(i, size int) *process {
	return launchWithin(g.t, nil, g.dirs[i], append(append(g.flags(i, size), g.more...), "--snapshot-every", "64KiB", "--stop-timeout", "3s")...)
}

// up starts nodes at the same time, and returns when all serve.
func (g *growing) up(size int, nodes ...int) {
	g.t.Helper()
	started := make([]*process, len(nodes))
	for k, i := range nodes {
		started[k] = g.launch(i, size)
	}
	for k, i := range nodes {
		p := started[k]
		select {
		case p.addr = <-p.serving:
		case <-time.After(2 * transporttest.Patience):
			_ = p.Process.Kill()
		}
		if p.addr == "" {
			g.t.Fatalf("n%d of %d did not start:\n%s", i+1, size, <-p.log)
		}
		g.nodes[i].Store(p)
	}
}

func (g *growing) down(nodes ...int) {
	g.t.Helper()
	for _, i := range nodes {
		if _, err := g.nodes[i].Swap(nil).end(g.t, syscall.SIGTERM); err != nil {
			g.t.Logf("n%d: SIGTERM: %v", i+1, err) // the last of a cluster: hits that were not answered may be lost
		}
	}
}

// killStarting kills a node during its start, so often, at other moments.
func (g *growing) killStarting(times, i, size int) {
	for k := range times {
		p := g.launch(i, size)
		select {
		case <-p.serving:
		case <-time.After(time.Duration(k*k) * 60 * time.Millisecond):
		}
		_, _ = p.end(g.t, syscall.SIGKILL)
	}
}

// load sends to node i, each hit until it is answered, until stop is closed.
func (g *growing) load(i int, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(3 * time.Millisecond):
		}
		id := fmt.Sprintf("grow-%d", g.ids.Add(1))
		for end := time.Now().Add(3 * transporttest.Patience); ; <-time.After(20 * time.Millisecond) {
			p := g.nodes[i].Load() // the same node again: another may not know the receipt yet
			if p != nil && p.post("grown", 1, id, true) {
				break
			}
			select {
			case <-stop:
				if p == nil {
					return // never answered, and its node is gone
				}
			default:
			}
			if time.Now().After(end) {
				g.t.Errorf("a durable hit on n%d was not taken", i+1)
				return
			}
		}
		g.sent[i].Add(1)
	}
}

// wantAll wants every node that runs to count each answered hit once.
func (g *growing) wantAll(what string) {
	g.t.Helper()
	want := uint64(0)
	for i := range g.sent {
		want += g.sent[i].Load()
	}
	last := ""
	transporttest.Eventually(g.t, what, func() bool {
		last = ""
		for i := range g.nodes {
			p := g.nodes[i].Load()
			if p == nil {
				continue
			}
			asked, err := client.New(p.addr, client.Options{Retries: -1})
			if err != nil {
				g.t.Fatal(err)
			}
			answers, err := asked.Count(g.t.Context(), client.CountQuery{Keys: []string{"grown"}, Windows: []time.Duration{time.Hour}})
			if err != nil || !answers[0].Exact || answers[0].Estimate != want {
				last = fmt.Sprintf("n%d: %+v of %d, %v", i+1, answers, want, err)
			}
		}
		return last == ""
	})
	g.t.Logf("%s: %d durable hits, each counted once", what, want)
}

// during runs the load of some nodes while do changes something.
func (g *growing) during(nodes []int, do func()) {
	stop := make(chan struct{})
	var loading sync.WaitGroup
	for _, i := range nodes {
		loading.Go(func() { g.load(i, stop) })
	}
	do()
	<-time.After(500 * time.Millisecond)
	close(stop)
	loading.Wait()
}

// One node grows into three, and five, and goes back to one, while clients send durable
// hits: each that was answered is counted once, on every node, after every change.
func TestGrowAndShrink(t *testing.T) {
	t.Parallel()
	g := newGrowing(t, 5)
	kills := 0
	if *growRounds > 0 {
		kills = 6
	}
	g.up(1, 0)
	g.during([]int{0}, func() {})
	g.wantAll("one node")
	for range max(1, *growRounds) {
		g.during([]int{0}, func() {
			began := time.Now()
			g.down(0)
			if kills > 0 { // the others wait for it, as a cluster's first start does
				others := []*process{g.launch(1, 3), g.launch(2, 3)}
				g.killStarting(kills, 0, 3)
				g.up(3, 0)
				for k, p := range others {
					p.addr = <-p.serving
					g.nodes[k+1].Store(p)
				}
			} else {
				g.up(3, 0, 1, 2)
			}
			t.Logf("%6.2f s from one node to three", time.Since(began).Seconds())
		})
		g.wantAll("three nodes")
		all := []int{0, 1, 2}
		if *growRounds > 0 {
			g.during(all, func() { g.up(5, 3, 4) })
			all = []int{0, 1, 2, 3, 4}
			g.wantAll("five nodes")
		}
		g.during(all, func() {})
		g.wantAll("all of them, under load")
		g.during([]int{0}, func() {
			began := time.Now()
			keeper := 0
			var stopping sync.WaitGroup
			for _, i := range all[1:] {
				p := g.nodes[i].Swap(nil)
				stopping.Go(func() { _, _ = p.end(t, syscall.SIGTERM) })
			}
			stopping.Wait()
			g.down(keeper)
			g.killStarting(kills, keeper, 1)
			g.up(1, keeper)
			t.Logf("%6.2f s from %d nodes to one", time.Since(began).Seconds(), len(all))
		})
		g.wantAll("one node again")
		for _, i := range all[1:] {
			if err := os.RemoveAll(g.dirs[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, left := range []string{"carried.backup", "jetstream.before", "leaving", "restoring"} {
		if _, err := os.Lstat(filepath.Join(g.dirs[0], left)); err == nil {
			t.Errorf("%s is left", left)
		}
	}
	g.down(0)
}

// A node whose settings file has no peer but itself runs alone. It ends when the file names others and these are up, and is one
// of three when it is started again by the same command. With the former file the same command brings it back.
func TestGrowBySettingsFile(t *testing.T) {
	t.Parallel()
	g := newGrowing(t, 3)
	file := filepath.Join(t.TempDir(), "weir.yaml")
	peers := func(n int) {
		t.Helper()
		text := fmt.Sprintf("cluster: grown\npeers: [%s]\n", strings.Join(g.addrs[:n], ", "))
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	secret := secretFile(t)
	g.command = func(i int) []string {
		return []string{"--config", file, "--node", g.name(i), "--cluster-addr", g.addrs[i], "--cluster-secret-file", secret}
	}
	peers(1)
	g.up(1, 0)
	g.during([]int{0}, func() {
		peers(3)
		first := g.nodes[0].Load()
		others := []*process{g.launch(1, 3), g.launch(2, 3)}
		<-first.ended
		if err := first.Wait(); err == nil {
			t.Error("it ended without an error, so that systemd does not start it again")
		}
		if log := <-first.log; !strings.Contains(log, errGrown.Error()) {
			t.Errorf("it does not say why it ended:\n%s", log)
		}
		g.up(3, 0)
		for k, p := range others {
			p.addr = <-p.serving
			g.nodes[k+1].Store(p)
		}
	})
	g.during([]int{0, 1, 2}, func() { g.wantMore(100) })
	g.wantAll("three nodes")
	peers(1)
	var stopping sync.WaitGroup
	for i := range g.nodes {
		p := g.nodes[i].Swap(nil)
		stopping.Go(func() { _, _ = p.end(t, syscall.SIGTERM) })
	}
	stopping.Wait()
	g.up(1, 0)
	g.during([]int{0}, func() { g.wantMore(10) })
	g.wantAll("one node again")
	g.down(0)
}

// wantMore waits for so many more answered hits.
func (g *growing) wantMore(n uint64) {
	g.t.Helper()
	sum := func() (all uint64) {
		for i := range g.sent {
			all += g.sent[i].Load()
		}
		return all
	}
	before := sum()
	transporttest.Eventually(g.t, "hits are answered", func() bool { return sum() >= before+n })
}
