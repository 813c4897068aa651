//go:build linux

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// failWrites makes every write of a process to a file fail, though its disk has space, as
// those of a broken device do; or lets them succeed again.
func (p *process) failWrites(t *testing.T, fail bool) {
	t.Helper()
	limit := syscall.Rlimit{Cur: ^uint64(0), Max: ^uint64(0)}
	if fail {
		limit.Cur = 0
	}
	const fileSize = 1 // RLIMIT_FSIZE
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(p.Process.Pid), fileSize, uintptr(unsafe.Pointer(&limit)), 0, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
}

// The device of one node's disk fails every write: it and the others say so, hits that it takes
// become durable on the others, and when the device works again all is well by itself.
func TestClusterWritesFail(t *testing.T) {
	t.Parallel()
	c := newProcesses(t)
	c.start(0, 1, 2)
	c.healthy("start")
	c.nodes[1].Load().failWrites(t, true)
	hits := c.hitUntil("n2 says that it does not store", "one", []int{0, 1, 2}, func() bool {
		r, ok := c.ready(1)
		return ok && r.alarm("replica_failing", "file too large")
	})
	c.wantAlarm(1, "replica_failing", "file too large")
	c.wantAlarm(0, "replica_missing", "n2")
	c.wantAlarm(2, "replica_missing", "n2")
	for i := range c.nodes {
		c.postUntilTaken(i, "one", fmt.Sprint("failing", i))
		hits++
		if r, ok := c.ready(i); !ok || r.code != http.StatusOK || r.Status != "degraded" {
			t.Errorf("%s: %+v", c.name(i), r)
		}
	}
	c.nodes[1].Load().failWrites(t, false)
	c.healthy("n2's device failed")
	c.wantEqual(t, "one", hits)
	c.stop(0, 1, 2)
}

// The same of a node alone: while no write succeeds it is not ready, refuses hits and says why;
// then it is well by itself, and has all that it counted, also after a kill.
func TestWritesFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProcess(t, dir)
	counted := p.wantWell(t)
	p.failWrites(t, true)
	transporttest.Eventually(t, "it says that the journal fails", func() bool {
		counted += p.tryAll(t).counted
		return p.says(t, "journal_failing")
	})
	if tried := p.tryAll(t); tried.plain != "overloaded" || tried.durable != "journal_failing" || tried.decision != "overloaded" || tried.counted > 0 {
		t.Errorf("while no write succeeds: %+v", tried)
	}
	p.failWrites(t, false)
	counted += p.wantWell(t)
	if _, err := p.end(t, syscall.SIGKILL); err == nil {
		t.Fatal("the process ended well in spite of SIGKILL")
	}
	p = startProcess(t, dir)
	wantCounted(t, p.addr, "refused", fmt.Sprint(counted))
	if log, err := p.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, log)
	}
}

// The embedded server of a node gave up, its disk has space, and yet it can't start: a part of
// its directory is no directory. The node is cut off from the others, refuses hits, and says why; it is well by
// itself once the server starts.
func TestClusterServerCannotStart(t *testing.T) {
	t.Parallel()
	c := newProcesses(t)
	c.start(0, 1, 2)
	c.healthy("start")
	files := filepath.Join(c.dirs[1], "jetstream", "jetstream", "$SYS")
	c.nodes[1].Load().failWrites(t, true)
	hits := c.hitUntil("n2 says that it does not store", "one", []int{0, 1, 2}, func() bool {
		r, ok := c.ready(1)
		return ok && r.alarm("replica_failing", "")
	})
	if err := os.Rename(files, files+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files, []byte("not a directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.nodes[1].Load().failWrites(t, false)
	c.wantAlarm(1, "replica_failing", "not a directory")
	c.wantAlarm(0, "replica_missing", "n2")
	c.wantAlarm(1, "replica_failing", "waits in memory")
	c.wantAlarm(1, "journal_failing", "")
	for i := range c.nodes {
		if err := c.nodes[i].Load().hit("one", "", false); (err == nil) != (i != 1) {
			t.Errorf("a hit at %s: %v", c.name(i), err)
		}
	}
	hits += 2
	if err := os.Remove(files); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(files+".moved", files); err != nil {
		t.Fatal(err)
	}
	c.healthy("n2's server could not start")
	c.wantEqual(t, "one", hits)
	c.stop(0, 1, 2)
}

// A node that is started where it can't write ends with an error that names the directory, for
// its supervisor to try again; the others go on, and it is well once it can.
func TestClusterStartsOnAReadOnlyDisk(t *testing.T) {
	t.Parallel()
	c := newProcesses(t)
	disks := newDisks(t, c, diskBytes)
	c.start(0, 1, 2)
	c.healthy("start")
	c.kill(1)
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("", disks[1].dir, "", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	p := c.launch(1)
	log := <-p.log
	if err := p.Wait(); err == nil || !strings.Contains(log, "read-only file system") || !strings.Contains(log, c.dirs[1]) {
		t.Errorf("started on a disk that is read-only: %v\n%s", err, log)
	}
	c.wantAlarm(0, "replica_missing", "n2")
	c.postUntilTaken(0, "one", "readonly")
	remount(0)
	c.start(1)
	c.healthy("n2 was started on a disk that was read-only")
	c.wantEqual(t, "one", 1)
	c.stop(0, 1, 2)
}
