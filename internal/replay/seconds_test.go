package replay

import (
	"math/rand/v2"
	"testing"
)

// The naive way: every hit on a list.
type naiveSeconds []second

func (s naiveSeconds) count(at, w int64) (n uint64) {
	for _, x := range s {
		if x.at > at-w && x.at <= at {
			n += x.n
		}
	}
	return n
}

func (s naiveSeconds) busiest(w int64) (best second) {
	for _, x := range s {
		n := s.count(x.at, w)
		if n > best.n || n == best.n && n > 0 && x.at < best.at {
			best = second{x.at, n}
		}
	}
	return best
}

func TestSeconds(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		var naive naiveSeconds
		var s seconds
		at := int64(1_000_000)
		for range r.IntN(400) {
			at += r.Int64N(4)
			x := second{at, uint64(r.IntN(3))}
			switch r.IntN(5) {
			case 0:
				x.at -= r.Int64N(400)
			case 1:
				at += r.Int64N(100)
			}
			naive = append(naive, x)
			if err := s.add(x.at, x.n); err != nil {
				t.Fatal(err)
			}
			if r.IntN(50) == 0 {
				s.merge()
			}
		}
		for _, w := range []int64{1, 2, 60, 300, 100_000} {
			if got, want := s.busiest(w), naive.busiest(w); got != want {
				t.Fatalf("seed %d: busiest %d s: got %v, want %v", seed, w, got, want)
			}
			for range 20 {
				at := 1_000_000 - 500 + r.Int64N(3000)
				if got, want := s.count(at, w), naive.count(at, w); got != want {
					t.Fatalf("seed %d: (%d-%d, %d]: got %d, want %d", seed, at, w, at, got, want)
				}
			}
		}
	}
}
