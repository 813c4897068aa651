package window

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Late hits of every age, between hits that move the window on, are where hits in order would be:
// while the numbers are small, when they grow out of 16 bits, and when they are large.
func TestLateHitsOfEveryAge(t *testing.T) {
	t.Parallel()
	for seed, most := range []uint64{1, 40, 70_000, math.MaxUint64 / 4000} {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		tw := newTwin(t, MaxSeconds)
		at := int64(1_600_000_000)
		for range 3000 {
			if r.IntN(3) == 0 {
				at += int64(math.Exp(r.Float64() * math.Log(day)))
			}
			age := int64(math.Exp(r.Float64() * math.Log(364*day)))
			tw.add(at-age+1, 1+r.Uint64N(most))
		}
		if !tw.w.Dense() {
			t.Fatal("the hits are kept as pairs")
		}
		tw.sweep(r)

		slices.SortFunc(tw.v.hits, func(a, b pair) int { return int(a.at - b.at) })
		ordered, _ := New(MaxSeconds)
		for _, h := range tw.v.hits {
			if outcome := ordered.Add(h.at, h.n); outcome != Counted {
				t.Fatal(outcome)
			}
		}
		if !slices.Equal(encode(t, &ordered), encode(t, &tw.w)) {
			t.Fatalf("at most %d hits at once: another order gave another window", most)
		}
	}
}

// A key with a few hundred hits takes little, whatever the time that they are spread over.
func TestSizeOfAFewHundredHits(t *testing.T) {
	t.Parallel()
	for _, span := range []int64{3600, day, 30 * day} {
		r := rand.New(rand.NewPCG(uint64(span), 1))
		w, err := New(DefaultRetention)
		if err != nil {
			t.Fatal(err)
		}
		for range 600 {
			w.Add(1_700_000_000+r.Int64N(span), 1)
		}
		t.Logf("600 hits over %d s take %d bytes", span, w.Size())
		if !w.Dense() || w.Size() > 5200 {
			t.Errorf("600 hits over %d s take %d bytes, dense %v: want at most 5200", span, w.Size(), w.Dense())
		}
	}
}
