package record

import (
	"math/rand/v2"
	"testing"
)

// However often a clock is set, the list stays short, and says no less than all sets together.
func TestManyClockSets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var list, all ClockSets
	for i := range uint64(500) {
		s := ClockSet{After: i, MS: random.Int64N(20_000) - 10_000}
		list, all = list.With(s), append(all, s)
		if len(list) > maxClockSets {
			t.Fatalf("%d sets", len(list))
		}
		for other := range i {
			if list.Since(other) < all.Since(other) {
				t.Fatalf("after %d sets: %v since %d, and really %v", i+1, list.Since(other), other, all.Since(other))
			}
		}
	}
}
