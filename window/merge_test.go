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
	a, _ := New(1000)
	b, _ := New(2000)
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

// A pair that is older than hits which have left must not hide them.
func TestMergeOfAnOlderPair(t *testing.T) {
	w, _ := New(600)
	for i := range int64(300) {
		w.Add(1_000_000+i*300, 1)
	}
	older, _ := New(600)
	older.Add(5, 1)
	if err := w.Merge(&older); err != nil {
		t.Fatal(err)
	}
	newest, _ := w.Newest()
	if got := w.Count(newest, MaxSeconds); got.Upper < 301 {
		t.Errorf("%+v, truth 301", got)
	}
}

// Settle never refuses: hits older than the retention are among those that left.
func TestSettle(t *testing.T) {
	for _, fill := range []int64{1, 2000} { // pairs, pyramid
		w, _ := New(600)
		for i := range fill {
			w.Add(1_000_000+i, 1)
		}
		newest, _ := w.Newest()
		w.Settle(newest-599, 1)
		w.Settle(newest-600, 10)
		w.Settle(5, 100)
		w.Settle(newest, 0)
		if got := w.Total(); got != uint64(fill)+111 {
			t.Errorf("total %d, want %d", got, fill+111)
		}
		got, truth := w.Count(newest, MaxSeconds), uint64(fill)+111
		if got.Lower > truth || got.Upper < truth {
			t.Errorf("%+v, truth %d", got, truth)
		}
	}
}
