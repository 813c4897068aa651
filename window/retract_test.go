package window

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Counts after a retraction are those of a window that never had the hits, in both forms and in all levels.
func TestRetract(t *testing.T) {
	const retention = 40 * 86400
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			with, without := newTwin(t, retention), newTwin(t, retention)
			spread := int64(1) << (2 + seed%20)
			var taken []pair
			now := int64(1_700_000_000)
			for range 20 + seed*3 {
				now += r.Int64N(3)
				h := pair{now - r.Int64N(spread), 1 + r.Uint64N(1+1<<(seed%18))}
				if with.w.Add(h.at, h.n) == TooLate {
					continue
				}
				if r.IntN(4) == 0 {
					taken = append(taken, h)
				} else {
					without.w.Add(h.at, h.n)
				}
				if len(taken) > 0 && r.IntN(4) == 0 {
					with.w.Retract(taken[0].at, taken[0].n)
					taken = taken[1:]
				}
			}
			with.w.Add(now+1, 1)
			without.w.Add(now+1, 1)
			for _, h := range taken {
				with.w.Retract(h.at, h.n)
			}
			if a, b := with.w.Total(), without.w.Total(); a != b {
				t.Errorf("total %d, want %d", a, b)
			}
			for range 200 {
				at, w := now+1-r.Int64N(2*spread), 1+r.Int64N(2*spread)
				got, want := with.w.Count(at, w), without.w.Count(at, w)
				if with.w.Dense() == without.w.Dense() && got != want || got.Lower > want.Upper || got.Upper < want.Lower {
					t.Fatalf("count at %d of %d s: %v, want %v", at, w, got, want)
				}
			}
			var copied Window
			if err := copied.UnmarshalBinary(encode(t, &with.w)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The last hit may go, and what is not there takes nothing else away.
func TestRetractAll(t *testing.T) {
	w, err := New(600)
	if err != nil {
		t.Fatal(err)
	}
	w.Retract(100, 1)
	w.Add(1000, 3)
	w.Retract(999, 1)
	w.Retract(1000, 5)
	if newest, seen := w.Newest(); seen || newest != 0 || w.Total() != 0 {
		t.Errorf("newest %d, %v, total %d", newest, seen, w.Total())
	}
	w.Add(10, 1)
	if c := w.Count(10, 1); c != Exactly(1) {
		t.Error(c)
	}
}
