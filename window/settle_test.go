package window

import (
	"math/rand/v2"
	"testing"
)

// Hits that were accepted elsewhere come in any order, some of them so late that
// their second has left: no window is ever exact without them.
func TestSettledHitsAreBounded(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		retention := int64(MinRetention + r.IntN(2000))
		w, err := New(retention)
		if err != nil {
			t.Fatal(err)
		}
		v := naive{retention: retention}
		newest := int64(1_000_000)
		for range 10 + r.IntN(500) {
			if r.IntN(3) == 0 {
				newest += r.Int64N(200)
			}
			at := newest
			switch r.IntN(4) {
			case 0:
				at -= r.Int64N(2 * retention)
			case 1:
				at -= r.Int64N(60)
			}
			n := 1 + r.Uint64N(3)
			w.Settle(at, n)
			v.hits = append(v.hits, pair{at, n})
			v.newest = max(v.newest, at)
			for range 3 {
				end := v.newest - r.Int64N(100)
				checkCount(t, &w, &v, end, 1+r.Int64N(3*retention))
			}
		}
	}
}

// Whatever makes pairs longer, also the number of hits that have left, leaves bytes that can be read back: at the edge between pairs and
// a pyramid too.
func TestFullPairsAreReadBack(t *testing.T) {
	t.Parallel()
	full := func() *Window {
		w, _ := New(100_000)
		for i := int64(0); !w.Dense(); i++ {
			last := w.Clone()
			if w.Add(1_000_000+i, 3); w.Dense() {
				return &last
			}
		}
		return nil
	}
	left, _ := New(100_000)
	left.Add(1_000_000, 1)
	left.Settle(5, 1<<40)
	for name, change := range map[string]func(*Window) error{
		"settled": func(w *Window) error { w.Settle(5, 1<<40); return nil },
		"merged":  func(w *Window) error { return w.Merge(&left) },
		"with another retention": func(w *Window) (err error) {
			w.Settle(5, 1<<40)
			*w, _, err = w.WithRetention(50_000)
			return err
		},
	} {
		w := full()
		if err := change(w); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got Window
		if err := got.UnmarshalBinary(encode(t, w)); err != nil || got.Total() != w.Total() {
			t.Errorf("%s: %v, %d hits of %d", name, err, got.Total(), w.Total())
		}
	}
}
