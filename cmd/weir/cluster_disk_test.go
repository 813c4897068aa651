//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/testsupport"
)

// disk is a small file system of its own, in memory.
type disk struct{ dir string }

const diskBytes = 64 << 20 // for one fault; the ledger of an hour takes more

// newDisks gives each node's data directory a disk of its own.
func newDisks(t *testing.T, c *processes, bytes int) (disks []disk) {
	t.Helper()
	for _, dir := range c.dirs {
		err := syscall.Mount("weir-test", dir, "tmpfs", 0, fmt.Sprint("size=", bytes))
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
			testsupport.Missing(t, "the right to mount a file system")
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		disks = append(disks, disk{dir})
	}
	return disks
}

// fill takes all space; again, if some was given back since.
func (d disk) fill(t *testing.T) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(d.dir, "filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 64<<10); ; {
		if _, err = file.Write(block); err != nil && len(block) > 1 {
			block = block[:len(block)/2]
		} else if err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

func (d disk) free(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(d.dir, "filler")); err != nil {
		t.Fatal(err)
	}
}

// hitUntil sends plain hits to nodes until what it waits for is true, and returns how
// many were counted. What fills a disk is the journal of them.
func (c *processes) hitUntil(what, key string, nodes []int, done func() bool) (counted uint64) {
	c.t.Helper()
	began := time.Now()
	defer func() { c.t.Logf("%6.2f s, %s", time.Since(began).Seconds(), what) }()
	transporttest.Eventually(c.t, what, func() bool {
		for _, i := range nodes {
			if p := c.nodes[i].Load(); p != nil && p.hit(key, "", false) == nil {
				counted++
			}
		}
		return done()
	})
	return counted
}

// The disk of one node is full, and then of all, and then has space again: while it
// lasts every node says so, and once it is over all is as it was, by itself, and no hit
// that was answered is lost.
func TestClusterDiskFull(t *testing.T) {
	t.Parallel()
	c := newProcesses(t)
	disks := newDisks(t, c, diskBytes)
	c.start(0, 1, 2)
	c.healthy("start")
	says := func(i int, code, words string) func() bool {
		return func() bool {
			r, ok := c.ready(i)
			return ok && r.alarm(code, words)
		}
	}

	disks[1].fill(t)
	hits := c.hitUntil("n2 says that it does not store", "one", []int{0, 1, 2}, says(1, "replica_failing", "the disk is full"))
	c.wantAlarm(1, "replica_failing", "the disk is full")
	c.wantAlarm(0, "replica_missing", "n2")
	c.wantAlarm(2, "replica_missing", "n2")
	for i := range c.nodes { // the others store, also for n2
		c.postUntilTaken(i, "one", fmt.Sprint("full", i))
		hits++
		if r, ok := c.ready(i); !ok || r.Status != "degraded" || r.alarm("journal_failing", "") {
			t.Errorf("%s: %+v", c.name(i), r)
		}
	}
	disks[1].free(t)
	c.healthy("n2's disk was full")
	c.wantEqual(t, "one", hits)

	c.kill(2) // n2's replica counts again
	c.postUntilTaken(0, "one", "killed0")
	c.postUntilTaken(1, "one", "killed1")
	hits += 2
	c.start(2)
	c.healthy("n3 was killed")
	c.wantEqual(t, "one", hits)

	for i := range disks {
		disks[i].fill(t)
	}
	hits = c.hitUntil("all say that nothing becomes durable", "all", []int{0, 1, 2}, func() bool {
		return says(0, "journal_failing", "")() && says(1, "journal_failing", "")() && says(2, "journal_failing", "")()
	})
	for i := range disks {
		c.wantAlarm(i, "journal_failing", "the disk is full")
	}
	for i := range c.nodes {
		if c.nodes[i].Load().hit("all", "", false) == nil {
			hits++
		}
	}
	for i := range disks {
		disks[i].free(t)
	}
	c.healthy("all disks were full")
	c.wantEqual(t, "all", hits)
	c.stop(0, 1, 2)
	c.start(0, 1, 2)
	c.healthy("all were stopped")
	c.wantEqual(t, "all", hits)
	c.stop(0, 1, 2)
}

// A node that is asked to stop while its hits can't be stored anywhere tries, within its
// time limit, and says in the end how many are lost.
func TestStopWhileDisksAreFull(t *testing.T) {
	t.Parallel()
	c := newProcesses(t, "--stop-timeout", "3s")
	disks := newDisks(t, c, diskBytes)
	c.start(0, 1, 2)
	c.healthy("start")
	for i := range disks {
		disks[i].fill(t)
	}
	c.hitUntil("n1 says that nothing becomes durable", "lost", []int{0, 1, 2}, func() bool {
		r, ok := c.ready(0)
		return ok && r.alarm("journal_failing", "")
	})
	for i := range 7 {
		if err := c.nodes[0].Load().hit(fmt.Sprint("lost:", i), "", false); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	log, err := c.nodes[0].Swap(nil).end(t, syscall.SIGTERM)
	if err == nil {
		t.Errorf("it ended well, after %v, though hits are lost:\n%s", time.Since(began), log)
	}
	wantLost(t, log, 7)
}
