package window

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// A window with another retention has the hits of the one before: for windows that both
// keep the same answers, and for longer ones bounds that hold. It is one that the decoder
// takes, and that merges.
func TestKept(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		was, to := 300+random.Int64N(100_000), 300+random.Int64N(400_000)
		if random.IntN(8) == 0 {
			to = was
		}
		w, err := New(was)
		if err != nil {
			t.Fatal(err)
		}
		type hit struct {
			at int64
			n  uint64
		}
		var hits []hit
		at := int64(1_000_000)
		for range random.IntN(2000) {
			at += random.Int64N(300)
			h := hit{max(0, at-random.Int64N(2000)), 1 + random.Uint64N(5)}
			if o := w.Add(h.at, h.n); o == Counted || o == Late {
				hits = append(hits, h)
			}
		}
		k, gone, err := w.WithRetention(to)
		if err != nil {
			t.Fatal(err)
		}
		if k.Total() != w.Total() || k.Retention() != max(to, MinRetention) {
			t.Fatalf("total %d kept for %d s, want %d and %d", k.Total(), k.Retention(), w.Total(), to)
		}
		newest, _ := w.Newest()
		for range 50 {
			seconds := 1 + random.Int64N(500_000)
			truth := uint64(0)
			for _, h := range hits {
				if h.at > newest-seconds && h.at <= newest {
					truth += h.n
				}
			}
			got := k.Count(newest, seconds)
			if seconds > w.Retention() {
				got.Upper += gone
			}
			if got.Lower > truth || truth > got.Upper {
				t.Fatalf("kept for %d s, then %d: window of %d s: %+v, and %d are true", was, to, seconds, got, truth)
			}
			if before := w.Count(newest, seconds); seconds <= min(was, to)/2 && gone == 0 && got != before {
				t.Fatalf("kept for %d s, then %d: window of %d s: %+v, before %+v", was, to, seconds, got, before)
			}
		}
		encoded, _ := k.MarshalBinary()
		var again Window
		if err := again.UnmarshalBinary(encoded); err != nil {
			t.Fatalf("%d s to %d: %v", was, to, err)
		}
		if b, _ := again.MarshalBinary(); !bytes.Equal(b, encoded) {
			t.Fatal("another encoding")
		}
		sum := k.Clone()
		if err := sum.Merge(&again); err != nil || sum.Total() != 2*k.Total() {
			t.Fatalf("%v, %d hits of twice %d", err, sum.Total(), k.Total())
		}
		k.Add(newest+1000, 3)
		if k.Total() != w.Total()+3 {
			t.Fatal("it does not go on counting")
		}
	}
}
