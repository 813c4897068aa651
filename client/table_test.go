package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Lines are what a map of sums would have, whatever is taken between.
func TestSums(t *testing.T) {
	t.Parallel()
	table, r := newSumTable(1000, 1<<20), rand.New(rand.NewPCG(1, 2))
	type line struct {
		key    string
		second int64
	}
	want, got := map[line]uint64{}, map[line]uint64{}
	var total uint64
	take := func() {
		lines := table.Take()
		for _, l := range lines {
			got[line{l.Key, l.Second}] += l.N
		}
		table.Release(lines)
	}
	for range 20_000 {
		o, n := line{fmt.Sprint("k", r.IntN(50)), r.Int64N(4)}, uint64(r.IntN(5)+1)
		if err := table.Add(o.key, o.second, n); err != nil {
			t.Fatal(err)
		}
		want[o] += n
		total += n
		if r.IntN(500) == 0 {
			take()
		}
	}
	take()
	if len(got) != len(want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
	for o, n := range want {
		if got[o] != n {
			t.Errorf("%+v: %d, want %d", o, got[o], n)
		}
	}
	if s := table.Stats(); s != (SenderStats{Taken: total}) {
		t.Errorf("%+v in the end", s)
	}
}

// At the bound new lines are refused and counted, old ones take hits, and what was taken counts
// until it is released.
func TestBound(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]*sumTable{"lines": newSumTable(2, 1<<20), "bytes": newSumTable(100, 2*sumLineBytes+2)} {
		for _, key := range []string{"a", "b", "a"} {
			if err := table.Add(key, 7, 1); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		lines := table.Take()
		for range 2 {
			if err := table.Add("c", 7, 3); !errors.Is(err, ErrFull) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s := table.Stats(); s != (SenderStats{Taken: 3, Refused: 6, Lines: 2, Bytes: 2*sumLineBytes + 2}) {
			t.Errorf("%s: %+v", name, s)
		}
		table.Release(lines[:1])
		if err := table.Add("c", 7, 3); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		table.Close()
		if err := table.Add("c", 7, 1); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
		if lines = table.Take(); len(lines) != 1 || lines[0] != (sumLine{"c", 7, 3}) {
			t.Errorf("%s: %v", name, lines)
		}
	}
}

// What no server would count is refused at once.
func TestWrongHits(t *testing.T) {
	t.Parallel()
	table := newSumTable(10, 1<<20)
	for _, wrong := range []sumLine{
		{"", 1, 1}, {strings.Repeat("k", 513), 1, 1}, {"\xff", 1, 1}, {"*", 1, 1}, {"limit:x", 1, 1}, {"k", -1, 1}, {"k", 1, 0}, {"k", 1, MaxHits + 1},
	} {
		if err := table.Add(wrong.Key, wrong.Second, wrong.N); err == nil || errors.Is(err, ErrFull) {
			t.Errorf("%.20q at %d: %v", wrong.Key, wrong.Second, err)
		}
	}
	// A line is no more than one hit may be.
	for range 3 {
		if err := table.Add("k", 1, MaxHits-1); err != nil {
			t.Fatal(err)
		}
	}
	if lines := table.Take(); len(lines) != 3 || lines[0].N != MaxHits-1 {
		t.Errorf("%v", lines)
	}
}

// The table takes no more memory than its bound says, in the worst case: full, taken, full again.
func TestMemory(t *testing.T) {
	const lines = 50_000
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	key := strings.Repeat("k", 20)
	for _, n := range []int{1000, lines / 3, lines} {
		before := heap()
		table := newSumTable(lines, 1<<40)
		fill := func() {
			for i := range n {
				if err := table.Add(fmt.Sprint(key, i), 1, 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		fill()
		table.Release(table.Take())
		fill()
		all := table.Take()
		used, bound := heap()-before, table.Stats().Bytes
		t.Logf("%d lines: %d bytes, the bound says %d", n, used, bound)
		if used > bound+64<<10 {
			t.Errorf("%d lines: %d bytes, and the bound says %d", n, used, bound)
		}
		runtime.KeepAlive(all)
		runtime.KeepAlive(table)
	}
}

// Each hit is taken once, whoever adds and takes.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	table := newSumTable(1<<20, 1<<40)
	var adding sync.WaitGroup
	for g := range 4 {
		adding.Go(func() {
			for i := range 20_000 {
				if err := table.Add(fmt.Sprint("k", (i*7+g)%100), int64(i/1000), 1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { adding.Wait(); close(done) }()
	var sum uint64
	take := func() {
		lines := table.Take()
		for _, l := range lines {
			sum += l.N
		}
		table.Release(lines)
	}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		take()
	}
	if s := table.Stats(); sum != 80_000 || s != (SenderStats{Taken: 80_000}) {
		t.Errorf("%d taken; %+v", sum, s)
	}
}
