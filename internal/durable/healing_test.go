package durable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
)

func alarmed(j *Journal, code string) bool {
	return slices.ContainsFunc(j.Alarms(), func(a api.Alarm) bool { return a.Code == code })
}

// Writing fails on all nodes of a cluster, with an error that their servers do not take
// for a full disk: they give up each stream by itself, and nothing is durable. Every
// node says so, and once it is over all go on by themselves, with every hit once.
func TestClusterHealsFailedWrites(t *testing.T) {
	t.Parallel()
	if !inOwnProcess(t) {
		return
	}
	c := newCluster(t, 3)
	c.start()
	hits := uint64(0)
	fill := func() {
		for i := range 300 {
			c.nodes[i%3].hit(fmt.Sprintf("key:%0100d", i), 1_000_000, 1)
			hits++
		}
	}
	fill()
	c.agree(map[string]uint64{engine.AllKeys: hits})
	lift := fullDisk(t, 64<<10)
	fill()
	for i, node := range c.nodes {
		transporttest.Eventually(t, fmt.Sprintf("n%d says what is wrong", i+1), func() bool {
			fill()
			return alarmed(node.j, "journal_failing") && alarmed(node.j, "replica_failing") && alarmed(node.j, "replica_missing")
		})
	}
	began := time.Now()
	lift()
	for i, node := range c.nodes {
		transporttest.Eventually(t, fmt.Sprintf("n%d is well", i+1), func() bool { return len(node.j.Alarms()) == 0 && !node.j.stats.failing() })
		node.sync()
	}
	t.Logf("healed after %v", time.Since(began))
	c.agree(map[string]uint64{engine.AllKeys: hits})
	for i, node := range c.nodes {
		if s := node.j.Stats(); s.Revivals == 0 || s.Divergence+s.Holes > 0 {
			t.Errorf("n%d: %+v", i+1, s)
		}
	}
}

// A node whose embedded server can't be restarted refuses hits within seconds and says why: they would wait in memory, and the other nodes
// take them. Once the server runs again it counts, and all that it took is there once.
func TestServerThatCanNotStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start()
	lost := c.nodes[0]
	lost.hit("a", 1_000_000, 1)
	c.agree(map[string]uint64{"a": 1})
	if err := lost.j.server.Stop(); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", c.cfgs[0].Join.Addr)
	if err != nil {
		t.Fatal(err)
	}
	hits := uint64(1)
	transporttest.Eventually(t, "hits are refused", func() bool {
		if !lost.take("a", 1_000_001) {
			return true
		}
		hits++
		return false
	})
	alarms := lost.j.Alarms()
	if !slices.ContainsFunc(alarms, func(a api.Alarm) bool {
		return a.Code == "journal_failing" && a.Refusing && strings.Contains(a.Message, "could not be restarted")
	}) {
		t.Errorf("alarms %+v", alarms)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "it takes hits again", func() bool { return lost.take("a", 1_000_002) })
	c.agree(map[string]uint64{"a": hits + 1})
}

// A server that never stops, because one of its goroutines waits for good, can't be started again within the process: the node refuses hits, and the
// process is to end, for its supervisor to restart it.
func TestServerThatDoesNotStop(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	stands := standstill{c.cfgs[0].Logger.Handler(), make(chan struct{})}
	c.cfgs[0].Logger = slog.New(stands)
	c.start()
	t.Cleanup(func() { close(stands.over) })
	lost := c.nodes[0]
	lost.hit("a", 1_000_000, 1)
	c.agree(map[string]uint64{"a": 1})
	stopped := make(chan error)
	go func() { stopped <- lost.j.server.Stop() }() // as an error of its own would
	transporttest.Eventually(t, "hits are refused", func() bool { return !lost.take("b", 1_000_001) })
	if err := <-stopped; !errors.Is(err, transport.ErrStuck) {
		t.Errorf("stopped: %v", err)
	}
	select {
	case <-lost.j.Failed():
	case <-time.After(transporttest.Patience):
		t.Fatal("the journal does not fail")
	}
	if err := lost.j.Err(); !errors.Is(err, transport.ErrStuck) {
		t.Errorf("failed with %v", err)
	}
	c.nodes[1].hit("a", 1_000_002, 1) // the others go on
	c.nodes[1].sync()
	lost.j.closed.Do(func() {
		lost.j.stop(errClosing)
		lost.j.running.Wait()
		if err := lost.j.release(); !errors.Is(err, transport.ErrStuck) {
			t.Errorf("released: %v", err)
		}
	})
	if lock, err := checkpoint.LockDirectory(c.cfgs[0].Dir); err == nil {
		t.Errorf("another can open the directory, though the server may write there: %v", lock.Release())
	}
}

// standstill is a log in which a server that shuts down stands still, once it has closed its connections.
type standstill struct {
	slog.Handler
	over chan struct{}
}

func (standstill) Enabled(context.Context, slog.Level) bool { return true }

func (s standstill) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "Server Exiting") {
		<-s.over
	}
	return nil
}
