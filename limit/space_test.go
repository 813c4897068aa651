package limit

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
)

// A state with space beside it decides as one without, keeps the same bytes, and has memory of its own once
// the space is too small.
func TestSpaceDecidesAlike(t *testing.T) {
	t.Parallel()
	p := plan(t, Limit{N: 100, Per: time.Second})
	longer := plan(t, Limit{N: 1000, Per: time.Minute})
	for _, words := range []int{0, 1, p.Near(), 17} {
		r := rand.New(rand.NewPCG(uint64(words), 1))
		var with, without State
		space := make([]int64, words)
		p.Begin(&with, space)
		now := int64(time.Hour)
		use, left := p, false
		for range 20_000 {
			now += r.Int64N(int64(100 * time.Millisecond))
			if r.IntN(500) == 0 {
				now += int64(2 * time.Second)
			}
			if r.IntN(2000) == 0 {
				next := p
				if use == p {
					next = longer
				}
				next.Adopt(&with, use, now)
				next.Adopt(&without, use, now)
				use = next
			}
			n := r.Uint64N(12)
			if a, b := use.Take(&with, now, n), use.Take(&without, now, n); a != b {
				t.Fatalf("%d words: %+v, without %+v", words, a, b)
			}
			if !bytes.Equal(use.AppendState(nil, &with), use.AppendState(nil, &without)) {
				t.Fatalf("%d words: the states differ", words)
			}
			switch size := with.SizeWithout(space); {
			case size == 0 && without.Size() > 0 && left:
				t.Fatalf("%d words: the state is back in space that it left", words)
			case size > 0 && size != with.Size():
				t.Fatalf("%d words: %d bytes beside it, of %d", words, size, with.Size())
			case size > 0:
				left = true
			}
		}
	}
}
