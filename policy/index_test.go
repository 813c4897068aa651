package policy

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
		patterns := make([]pattern, 1+rng.IntN(30))
		for i := range patterns {
			var err error
			if patterns[i], err = parsePattern(word(6) + "*"); err != nil {
				t.Fatal(err)
			}
		}
		x := newIndex(patterns)
		for range 50 {
			key := word(9)
			var want []int32
			for i := range patterns {
				if strings.HasPrefix(key, patterns[i].prefix()) {
					want = append(want, int32(i))
				}
			}
			if got := x.candidates(key); !slices.Equal(got, want) {
				t.Fatalf("key %q: candidates %v, want %v of %v", key, got, want, fmt.Sprint(patterns))
			}
		}
	}
	none := newIndex(nil)
	if got := none.candidates("a"); got != nil {
		t.Errorf("no policies: candidates %v", got)
	}
}
