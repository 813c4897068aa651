package admit

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/limit"
)

// Whatever lies where in its part: what a limit does to the requests themselves is within the bounds, and so is the estimate.
func TestBoundsHold(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(16, 1))
	exact := 0
	for round := range 2000 {
		l := limit.Limit{N: 1 + random.Uint64N(40), Per: time.Duration(1+random.IntN(90)) * time.Second}
		l.Burst = l.N
		plan, err := limit.New(l)
		if err != nil {
			t.Fatal(err)
		}
		var parts []WhatIfPart
		var s limit.State
		var denied uint64
		at := int64(1_769_860_800)
		for range 1 + random.IntN(40) {
			p := WhatIfPart{From: at, To: at + int64(1)<<random.IntN(7)}
			for at = p.From + 1; at <= p.To; at++ {
				if random.IntN(3) > 0 {
					continue
				}
				n := random.Uint64N(2 * l.N)
				p.Estimate += n
				for range n { // within the second, one after the other
					if !plan.Allow(&s, at*int64(time.Second), 1) {
						denied++
					}
				}
			}
			at = p.To
			p.Lower, p.Upper = p.Estimate-random.Uint64N(p.Estimate/8+1), p.Estimate+random.Uint64N(p.Estimate/8+1)
			parts = append(parts, p)
		}
		d := WhatIf(plan, parts)
		if denied < d.Lower || denied > d.Upper || d.Estimate < d.Lower || d.Estimate > d.Upper {
			t.Fatalf("round %d: %d denied by %+v, said %+v", round, denied, l, d)
		}
		if d.Lower == d.Upper {
			exact++
		}
	}
	if exact == 0 || exact == 2000 {
		t.Errorf("%d of 2000 are exact", exact)
	}
}

// Requests whose seconds are known are told nearly exactly.
func TestKnownSeconds(t *testing.T) {
	t.Parallel()
	l := limit.Limit{N: 10, Per: time.Minute, Burst: 10}
	plan, err := limit.New(l)
	if err != nil {
		t.Fatal(err)
	}
	var parts []WhatIfPart
	for at := range int64(600) {
		parts = append(parts, WhatIfPart{From: at, To: at + 1, Lower: 1, Estimate: 1, Upper: 1})
	}
	if d := WhatIf(plan, parts); d.Estimate != 500 || d.Lower != 500 || d.Upper > 510 {
		t.Errorf("%d to %d, about %d, of 600 of which 100 pass", d.Lower, d.Upper, d.Estimate)
	}
	if peak := PeakRequests(time.Minute, parts); peak != 60 {
		t.Errorf("at most %d in a minute", peak)
	}
}
