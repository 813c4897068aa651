package pattern

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestIndexFindsAllInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	word := func(most int) string {
		var b strings.Builder
		for range rng.IntN(most) {
			b.WriteByte("abc"[rng.IntN(3)])
		}
		return b.String()
	}
	for range 300 {
		patterns := make([]Pattern, 1+rng.IntN(30))
		for i := range patterns {
			var err error
			if patterns[i], err = Parse(word(6) + "*"); err != nil {
				t.Fatal(err)
			}
		}
		x := NewIndex(patterns)
		for range 50 {
			key := word(9)
			var want []int32
			for i := range patterns {
				if strings.HasPrefix(key, patterns[i].Prefix()) {
					want = append(want, int32(i))
				}
			}
			if got := x.Candidates(key); !slices.Equal(got, want) {
				t.Fatalf("key %q: candidates %v, want %v of %v", key, got, want, fmt.Sprint(patterns))
			}
		}
	}
	none := NewIndex(nil)
	if got := none.Candidates("a"); got != nil {
		t.Errorf("no policies: candidates %v", got)
	}
}
