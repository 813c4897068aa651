package main

import (
	"math"
	"runtime/debug"
	"testing"
)

// The limit is what is usual while that is enough, follows what is in use beyond, and never passes what all
// budgets come to.
func TestHeapLimit(t *testing.T) {
	t.Parallel()
	const usual, most, mib = 300 << 20, 1000 << 20, 1 << 20
	for _, test := range []struct {
		name string
		heap heap
		want int64
	}{
		{"at the start", heap{}, usual},
		{"all within", heap{live: 200 * mib, other: 10 * mib}, usual},
		{"limits are in use", heap{live: 400 * mib, other: 10 * mib}, 460 * mib},
		{"all budgets are used", heap{live: 990 * mib, other: 10 * mib}, most},
	} {
		if got := test.heap.limit(usual, most); got != test.want {
			t.Errorf("%s: %d MiB, want %d", test.name, got/mib, test.want/mib)
		}
	}
	if got := (heap{live: 20 * mib}).limit(0, math.MaxInt64); got != 20*mib+leastSpare {
		t.Errorf("a small heap has %d MiB", got/mib)
	}
	for live, want := range map[int64]int{0: 1600, 4 * mib: 1600, 20 * mib: 300, 33 * mib: 100, 64 * mib: 100, 1000 * mib: 100} {
		if got := (heap{live: live}).growth(); got != want {
			t.Errorf("a heap of %d MiB grows by %d %%, want %d", live/mib, got, want)
		}
	}
	if h := readHeap(); h.other <= 0 || h.live < 0 {
		t.Errorf("the runtime's figures: %+v", h)
	}
}

// A small heap may grow by more, unless whoever started the process has said by how much; and what was before is again
// when the server ends. (Not while other tests run: it belongs to the process.)
func TestHeapGrowth(t *testing.T) {
	for _, test := range []struct{ before, least int }{{doubles, doubles}, {50, 50}} {
		was := debug.SetGCPercent(test.before)
		l := newProcessLimit()
		l.setBounds(1<<30, 2<<30)
		l.follow(readHeap())
		now, limit := gcPercent(), debug.SetMemoryLimit(-1)
		l.close()
		if limit < 1<<30 || limit > 2<<30 || debug.SetMemoryLimit(-1) != math.MaxInt64 {
			t.Errorf("a limit of %d bytes, and %d after", limit, debug.SetMemoryLimit(-1))
		}
		if after := gcPercent(); now < test.least || test.before != doubles && now != test.before || after != test.before {
			t.Errorf("%d %% before, %d meanwhile, %d after", test.before, now, after)
		}
		debug.SetGCPercent(was)
	}
}

// A server that does not own its process, as an embedded one or those of these tests, leaves the garbage collector to its host.
func TestServeLeavesTheCollector(t *testing.T) {
	startServer(t, "--memory", "16MiB")
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 || gcPercent() != doubles {
		t.Errorf("a memory limit of %d bytes, a heap that grows by %d %%", limit, gcPercent())
	}
}
