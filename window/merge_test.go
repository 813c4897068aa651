package window

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Merging the windows of two parts gives the window of all hits, byte for byte.
func TestMergeIsTheWindowOfAllHits(t *testing.T) {
	for name := range patterns {
		for seed := range uint64(6) {
			r := rand.New(rand.NewPCG(seed, 2))
			share := []float64{0, 0.001, 0.02, 0.5, 0.98, 1}[seed]
			var all, left, right Window
			for _, w := range []*Window{&all, &left, &right} {
				*w, _ = New(MaxSeconds)
			}
			for _, at := range times(name, r) {
				n := 1 + r.Uint64N(300)
				all.Add(at, n)
				if r.Float64() < share {
					left.Add(at, n)
				} else {
					right.Add(at, n)
				}
			}
			want := encode(t, &all)
			before := encode(t, &right)
			if err := left.Merge(&right); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(encode(t, &left), want) {
				t.Fatalf("%s, seed %d: the merged window differs from the window of all hits", name, seed)
			}
			if !slices.Equal(encode(t, &right), before) {
				t.Fatalf("%s, seed %d: the merge changed its argument", name, seed)
			}
		}
	}
}

// With hits that have left the retention, merged answers still hold.
func TestMergeWithAgedHits(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		parts := []*twin{newTwin(t, 1000), newTwin(t, 1000)}
		all := naive{retention: 1000}
		for i, p := range parts {
			for range 20 + r.IntN(2000) {
				at, n := r.Int64N(5000)+int64(i)*r.Int64N(5000), 1+r.Uint64N(3)
				if outcome := p.v.add(at, n); p.w.Add(at, n) != outcome {
					t.Fatal("outcomes differ")
				} else if outcome != TooLate {
					all.hits = append(all.hits, pair{at, n})
					all.newest = max(all.newest, at)
				}
			}
		}
		if err := parts[0].w.Merge(&parts[1].w); err != nil {
			t.Fatal(err)
		}
		for _, seconds := range []int64{1, 100, 300, 500, 900, 1000, 1500, 3000, 10_000} {
			for _, at := range []int64{all.newest, all.newest + 10, all.newest - 400, all.newest - 1200} {
				got, truth := parts[0].w.Count(at, seconds), all.count(at, seconds)
				if got.Lower > truth || got.Upper < truth {
					t.Fatalf("seed %d: Count(%d, %d) = %+v, truth %d", seed, at, seconds, got, truth)
				}
			}
		}
	}
}

func TestMergeRefusesOtherRetention(t *testing.T) {
	a, _ := New(100)
	b, _ := New(200)
	a.Add(1, 1)
	b.Add(1, 1)
	if err := a.Merge(&b); err == nil || !strings.Contains(err.Error(), "same retention") {
		t.Errorf("got %v", err)
	}
	if a.Total() != 1 {
		t.Error("the refused merge changed the window")
	}
}

func encode(t *testing.T, w *Window) []byte {
	t.Helper()
	b, err := w.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
