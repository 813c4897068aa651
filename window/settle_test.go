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
