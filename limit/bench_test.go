package limit

import (
	"fmt"
	"testing"
	"time"
)

// benchmarked are one limit of each form, asked twice as often as they admit.
var benchmarked = []Limit{
	{N: 1000, Per: time.Second, Burst: 1},
	{N: 1000, Per: time.Second, Burst: 3},
	{N: 1000, Per: time.Second, Burst: 10},
	{N: 1000, Per: time.Second},
	{N: 1000, Per: time.Second, Algorithm: Fixed},
	{N: 1000, Per: time.Second, Algorithm: GCRA},
}

func benchmark(b *testing.B, step time.Duration, decide func(p *Plan, s *State, now int64)) {
	for _, l := range benchmarked {
		p := plan(b, l)
		b.Run(fmt.Sprintf("%v/burst=%d", l.Algorithm, p.limit.Burst), func(b *testing.B) {
			var s State
			now := epoch
			for b.Loop() {
				now += int64(step)
				decide(p, &s, now)
			}
		})
	}
}

func BenchmarkAllow(b *testing.B) {
	benchmark(b, time.Millisecond/2, func(p *Plan, s *State, now int64) { p.Allow(s, now, 1) })
}

func BenchmarkTake(b *testing.B) {
	benchmark(b, time.Millisecond/2, func(p *Plan, s *State, now int64) { p.Take(s, now, 1) })
}
