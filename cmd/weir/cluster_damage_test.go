package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

const journalBlocks = "jetstream/jetstream/$G/streams/WEIR_JOURNAL/msgs/*.blk"

// damageNewest damages the newest block of a node's replica of the journal.
func (c *processes) damageNewest(i int, damage func(data []byte) []byte) {
	c.t.Helper()
	paths, err := filepath.Glob(filepath.Join(c.dirs[i], journalBlocks))
	if err != nil || len(paths) == 0 {
		c.t.Fatalf("%s has no journal: %v", c.name(i), err)
	}
	path := paths[len(paths)-1]
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, damage(data), 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func flipMiddle(data []byte) []byte {
	data[len(data)/2] ^= 1
	return data
}

// wantNamed ends a node and wants its log to name damage.
func (c *processes) wantNamed(i int) {
	c.t.Helper()
	log, err := c.nodes[i].Swap(nil).end(c.t, syscall.SIGTERM)
	if err != nil || !strings.Contains(log, "this node's replica is damaged") || !strings.Contains(log, "WEIR_JOURNAL") {
		c.t.Errorf("%s: the damage is not named: %v\n%s", c.name(i), err, log)
	}
	c.start(i)
}

// A node's disk is damaged while it is away, while it runs, and while all are
// stopped, so that it may lead when they are back: every durable hit is counted by
// all, and the damage is named.
func TestClusterDamage(t *testing.T) {
	t.Parallel()
	c := newProcesses(t)
	c.start(0, 1, 2)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	for _, w := range c.writers {
		writing.Go(func() { w.run(stop) })
	}
	c.converge("start")
	transporttest.Eventually(t, "n1 has a replica of the journal, and has noted it for its next start", func() bool { // two others are enough to converge
		paths, _ := filepath.Glob(filepath.Join(c.dirs[0], journalBlocks))
		noted, _ := os.ReadFile(filepath.Join(c.dirs[0], "jetstream", "groups.json"))
		if len(paths) == 0 || !strings.Contains(string(noted), "WEIR_JOURNAL") {
			return false
		}
		newest, err := os.Stat(paths[len(paths)-1])
		return err == nil && newest.Size() > 8<<10 // the bit is in a message, not in the stream's first bytes
	})

	c.kill(0)
	c.damageNewest(0, flipMiddle)
	c.start(0)
	c.converge("a bit of n1's journal flipped while it was away")
	c.wantNamed(0)
	c.converge("n1 again")

	c.damageNewest(1, flipMiddle)
	c.converge("a bit of n2's journal flipped while it ran")
	c.kill(1)
	<-time.After(time.Second)
	c.start(1)
	c.converge("n2 again")

	close(stop)
	writing.Wait()
	c.converge("the last hit")
	c.checkAll()
	c.stop(0, 1, 2)
	if out := mustWeir(t, exitOK, "", "verify", "--data", c.dirs[2]); !strings.Contains(out, "replica of node     n3\n") {
		t.Errorf("verify of n3: %s", out)
	}
	c.damageNewest(2, func([]byte) []byte { return nil })
	if out := mustWeir(t, exitFailure, "", "verify", "--data", c.dirs[2]); !strings.Contains(out, "WEIR_JOURNAL") {
		t.Errorf("verify of n3, damaged: %s", out)
	}
	c.start(0, 1, 2)
	c.converge("n3's newest block emptied while all were stopped")
	c.checkAll()
	c.wantNamed(2)
	c.converge("n3 again")
	c.checkAll()
	c.stop(0, 1, 2)
}
