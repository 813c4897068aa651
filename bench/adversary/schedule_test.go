package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// ask is up to n requests at a time since the limiter was made, one after the
// other until one is denied.
type ask struct {
	at time.Duration
	n  int
}

// schedule is the asks of one caller, in order of time.
type schedule struct {
	name string
	asks []ask
}

// steps is one ask for n every gap, count of them from start on.
func steps(start, gap time.Duration, count, n int) []ask {
	asks := make([]ask, count)
	for i := range asks {
		asks[i] = ask{start + time.Duration(i)*gap, n}
	}
	return asks
}

// schedules are the callers who know how limiters work. Lead is how far from the
// edge of a period they keep: no more than the clock can tell apart.
func schedules(period, lead time.Duration, n int) []schedule {
	gap := period / time.Duration(n)
	return []schedule{
		{"steady: one every P/N", steps(0, gap, 4*n, 1)},
		{"one request; a burst before and after 2 P", []ask{{0, 1}, {2*period - lead, n}, {2*period + lead, n}}},
		{"one request; a burst before and after P", []ask{{0, 1}, {period - lead, n}, {period + lead, n}}},
		{"a burst, then one every P/N", append(steps(0, 0, 1, n), steps(gap, gap, 2*n, 1)...)},
		{"steady for 2 P, then a burst", append(steps(0, gap, 2*n, 1), ask{2*period + lead, n})},
		{"a burst every P", steps(0, period, 4, n)},
		{"a burst before P, and one before 2 P", []ask{{period - lead, n}, {2*period - 2*lead, n}}},
	}
}

// greedy takes all it can for a number of periods.
func greedy(gap time.Duration, count, n int) schedule {
	return schedule{"greedy: all it can", steps(0, gap, count, n)}
}

// random asks at times that limiters care for, and at others.
func random(seed uint64, period, lead time.Duration, n int) schedule {
	r := rand.New(rand.NewPCG(seed, 1))
	asks := make([]ask, 2+r.IntN(14))
	var at time.Duration
	for i := range asks {
		next := at.Truncate(period) + period
		switch r.IntN(6) {
		case 0:
			at += time.Duration(r.Int64N(int64(period)))
		case 1:
			at += period / time.Duration(1+r.IntN(2*n))
		case 2:
			at = max(at, next-lead)
		case 3:
			at = next
		case 4:
			at = next + lead
		case 5:
			at += period - lead
		}
		asks[i] = ask{at, []int{1, 1 + r.IntN(n), n}[r.IntN(3)]}
	}
	return schedule{fmt.Sprintf("random, seed %d", seed), asks}
}
