package durable

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
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
	lost.j.server.Stop()
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
