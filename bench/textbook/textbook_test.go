package textbook

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// steps is the example of the texts: counts over 300 s as time goes on.
var steps = []struct{ at, hits, want int64 }{
	{1, 1, 1},
	{2, 1, 2},
	{3, 1, 3},
	{4, 0, 3},
	{300, 1, 4},
	{301, 0, 3}, // the hit at 1 has left
	{301, 2, 5},
	{302, 0, 4},
	{600, 0, 2}, // those at 301 are still in
	{601, 0, 0},
	{100_000, 3, 3}, // a long gap
	{100_299, 1, 4},
	{100_300, 0, 1},
	{5_000_000, 0, 0},
}

func TestSteps(t *testing.T) {
	for _, d := range Designs() {
		c := d.New(300)
		for _, step := range steps {
			for range step.hits {
				c.Hit(step.at)
			}
			if got := c.Count(step.at, 300); got != step.want {
				t.Errorf("%s: at %d: %d hits, want %d", d.Name, step.at, got, step.want)
			}
		}
	}
}

// The steps of the texts, by the miniatures that answer at once.
func TestMiniatures(t *testing.T) {
	for _, d := range Miniatures() {
		if d.Name == "tree" || d.Name == "state-crdt" || d.Name == "operation-crdt" {
			continue
		}
		c := d.New(300)
		for _, step := range steps {
			for range step.hits {
				c.Hit(step.at)
			}
			if got := c.Count(step.at, 300); got != step.want {
				t.Errorf("%s: at %d: %d hits, want %d", d.Name, step.at, got, step.want)
			}
		}
		if c, is := c.(*Central); is {
			c.Close()
		}
	}
}

// The root of a tree lacks what its leaves and their parents still add up.
func TestTreeIsLate(t *testing.T) {
	c := NewTree(300, 4)
	for at, want := range []int64{0, 0, 4, 8} {
		for range 4 {
			c.Hit(1_000 + int64(at))
		}
		if got := c.Count(1_000+int64(at), 300); got != want {
			t.Errorf("%d s later: %d hits, want %d", at, got, want)
		}
	}
}

// What all replicas have exchanged, they all have; a merge that is repeated changes nothing.
func TestStateCRDT(t *testing.T) {
	c := NewStateCRDT(300)
	for range 3 {
		c.Hit(1_000)
	}
	if got := c.Count(1_000, 300); got != 1 {
		t.Errorf("before an exchange the first replica has %d hits, want its own", got)
	}
	for range 2 {
		for at := range replicas {
			merge(c.state[0][at], c.state[at][at])
		}
	}
	if got := c.Count(1_000, 300); got != 3 {
		t.Errorf("%d hits, want 3", got)
	}
}

// Operations that are lost or come twice stay so.
func TestOperationCRDT(t *testing.T) {
	c := NewOperationCRDT(300)
	const hits = 30_000
	for range hits {
		c.Hit(1_000)
	}
	if got := c.Count(1_000, 300); got == hits || got < hits*98/100 || got > hits*102/100 {
		t.Errorf("%d hits of %d", got, hits)
	}
}

// Each limiter against the schedule that the texts name for it: five at the end of a second and five
// at the beginning of the next, with five allowed in a second.
func TestLimiters(t *testing.T) {
	want := map[string]int{
		"counter per period": 10, "minimum gap": 2, "look back 10": 10, "sliding log": 5, "sliding window counter": 5, "token bucket": 6,
	}
	for _, d := range LimiterDesigns() {
		l, admitted := d.New(5, time.Second), 0
		for _, ms := range []time.Duration{1900, 1905, 1910, 1915, 1920, 2100, 2105, 2110, 2115, 2120} {
			if l.Allow(ms * time.Millisecond) {
				admitted++
			}
		}
		if admitted != want[d.Name] {
			t.Errorf("%s admits %d, want %d", d.Name, admitted, want[d.Name])
		}
	}
}

// naive keeps every hit.
type naive []int64

func (n naive) count(from, to int64) (sum int64) {
	for _, at := range n {
		if at > from && at <= to {
			sum++
		}
	}
	return sum
}

// TestAgainstNaive compares every window of random traffic in order of time.
func TestAgainstNaive(t *testing.T) {
	for _, d := range Designs() {
		r := rand.New(rand.NewPCG(1, 2))
		c, truth, at := d.New(300), naive{}, int64(1_000)
		for range 3_000 {
			if r.IntN(3) == 0 {
				at += int64(r.ExpFloat64() * 20)
			}
			c.Hit(at)
			truth = append(truth, at)
			seconds, now := 1+r.Int64N(300), at+r.Int64N(3)
			if got, want := c.Count(now, seconds), truth.count(now-seconds, now); got != want {
				t.Fatalf("%s: %d s at %d: %d hits, want %d", d.Name, seconds, now, got, want)
			}
			at = now
		}
	}
}

// TestLate has hits a few seconds late, and one older than the window.
func TestLate(t *testing.T) {
	want := map[string]int64{
		"deque":   3, // counts both late hits in the newest second
		"ring":    2,
		"total":   2,
		"cached":  2,
		"tiers":   2,
		"seconds": 2,
	}
	for _, d := range Designs() {
		c := d.New(300)
		for _, at := range []int64{1_000, 1_010, 1_004, 700} {
			c.Hit(at)
		}
		if got := c.Count(1_010, 10); got != want[d.Name] {
			t.Errorf("%s: %d hits in the last 10 s, want %d", d.Name, got, want[d.Name])
		}
	}
}

// TestTiersLongWindows shows the error that is part of the design: of the slot
// that the window cuts, all hits are missing.
func TestTiersLongWindows(t *testing.T) {
	const day, start = 86_400, 1_700_000_000 / 43_200 * 43_200
	const last = start + 8*day + 899 // a quarter of an hour into a slot of each ring
	c := NewTiers()
	for at := int64(start); at <= last; at++ {
		c.Hit(at)
	}
	for _, test := range []struct{ seconds, want int64 }{
		{300, 300},
		{1_800, 900},
		{3_600, 900 + 1_800},
		{day, 900 + 47*1_800},
		{7 * day, 900 + 13*43_200},
	} {
		if got := c.Count(last, test.seconds); got != test.want {
			t.Errorf("%d s: %d hits, want %d", test.seconds, got, test.want)
		}
	}
}

func TestSecondsForgetsWithoutCounts(t *testing.T) {
	s := NewSeconds(300)
	for at := range int64(10_000) {
		s.Hit(at)
	}
	if n := len(s.hits); n > 2*300+1 {
		t.Errorf("%d seconds kept of a window of 300", n)
	}
}

func TestCachedSeesEveryHit(t *testing.T) {
	c := NewCached(300)
	for i := range int64(2 * maxAnswers) {
		c.Hit(1_000)
		for range 2 {
			if got := c.Count(1_000, 1+i); got != 1+i {
				t.Fatalf("%d hits, want %d", got, 1+i)
			}
		}
	}
}

func TestGoroutines(t *testing.T) {
	for _, d := range Designs() {
		c := d.New(300)
		var hits sync.WaitGroup
		for range 4 {
			hits.Go(func() {
				for i := range int64(1_000) {
					c.Hit(1_000 + i/100)
					c.Count(1_010, 300)
				}
			})
		}
		hits.Wait()
		if got := c.Count(1_010, 300); got != 4_000 {
			t.Errorf("%s: %d hits, want 4000", d.Name, got)
		}
	}
}
