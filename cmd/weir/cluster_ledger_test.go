//go:build linux && netns

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/history/store/dbtest"
)

// Three nodes with history go through all faults of a network of packets, and through links that flap, two nodes that are
// killed while packets of the third are lost, full disks, and machines that are replaced. In the end the counts and the
// history of every node are what the writers sent: make cluster-ledger runs it for an hour.
func TestClusterLedger(t *testing.T) {
	ledger(t, "--history-every", "1s")
}

// The same with nodes that hold two thirds of the partitions each, and their history in one Postgres, which nodes reach
// through its socket.
func TestClusterLedgerOfSharesInPostgres(t *testing.T) {
	server := dbtest.NewPostgres()
	t.Cleanup(server.Close)
	ledger(t, "--replicas", "2", "--move-after", "1s", "--history-every", "1s", "--history-url", server.SocketURL(t))
}

func ledger(t *testing.T, flags ...string) {
	c, n := newNamespacedProcesses(t, flags...)
	disks := newDisks(t, c, 4*diskBytes)
	faults := append(n.faults(n.slowed),
		fault{name: "a link that flaps for 30 s", do: n.flap},
		fault{name: "nothing arrives from it for 6 s, meanwhile kill -9 of it and of the next", do: n.killTwoInLoss},
		fault{name: "killed and replaced by an empty one", do: func(c *processes, i int) {
			c.kill(i)
			c.clear(i)
			<-time.After(time.Second)
			c.start(i)
		}},
		fault{name: "its disk is full for 15 s", do: func(c *processes, i int) {
			disks[i].fill(t)
			<-time.After(15 * time.Second)
			disks[i].free(t)
		}})
	for i, f := range faults {
		faults[i].do = func(c *processes, node int) {
			f.do(c, node)
			c.converge(f.name)
			c.checkConsumers()
		}
	}
	crashCluster(t, c, faults, func() {
		for _, w := range c.writers {
			w.checkHistory(t)
		}
	})
}

// flap takes the link to a node down and up again, every half a second.
func (n *namespaces) flap(c *processes, i int) {
	for range 30 {
		n.Cut(c.name(i), true)
		<-time.After(500 * time.Millisecond)
		n.Cut(c.name(i), false)
		<-time.After(500 * time.Millisecond)
	}
}

func (n *namespaces) killTwoInLoss(c *processes, i int) {
	var lost sync.WaitGroup
	n.shape(i, false, true, lossOfAll)
	lost.Go(func() {
		<-time.After(6 * time.Second)
		n.unshape(i, false, true)
	})
	next := (i + 1) % clusterSize
	c.kill(i)
	c.kill(next)
	c.start(i, next)
	lost.Wait()
}

var consumersMetric = regexp.MustCompile(`(?m)^weir_journal_consumers ([0-9]+)$`)

// checkConsumers wants fewer than 10 JetStream consumers of the journal for each node, whatever readers have died.
func (c *processes) checkConsumers() {
	c.t.Helper()
	for i := range c.nodes {
		p := c.nodes[i].Load()
		if p == nil {
			continue
		}
		_, metrics := p.get(c.t, "/metrics")
		if found := consumersMetric.FindStringSubmatch(metrics); found == nil {
			c.t.Errorf("%s does not say how many consumers the journal has", c.name(i))
		} else if consumers, _ := strconv.Atoi(found[1]); consumers >= 10*clusterSize {
			c.t.Errorf("%s: the journal has %d consumers", c.name(i), consumers)
		}
	}
}

// checkHistory wants in the history of every node what it counts.
func (w *clusterWriter) checkHistory(t *testing.T) {
	t.Helper()
	durable, plain := w.keys()
	plainHits := w.c.counts(plain)[0]
	for i := range w.c.nodes {
		for key, want := range map[string]uint64{durable: w.durable, plain: plainHits} {
			if got := historyOf(t, w.c.nodes[i].Load(), key); got != want {
				t.Errorf("the history of %s has %d hits of %s, want %d", w.c.name(i), got, key, want)
			}
		}
	}
	t.Log(fmt.Sprintf("history: %d hits of %s and %d of %s on each node", w.durable, durable, plainHits, plain))
}

// clear is empty for a node whose directory is a disk of its own.
func (c *processes) clear(i int) {
	c.t.Helper()
	entries, err := os.ReadDir(c.dirs[i])
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(c.dirs[i], entry.Name())))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}
