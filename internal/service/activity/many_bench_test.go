package activity

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/limit"
)

// BenchmarkManyKeys is a denial of one of so many keys, with its decision, and without the note of it.
func BenchmarkManyKeys(b *testing.B) {
	for _, keys := range []int{1, 1000, 10_000} {
		for _, noted := range []bool{true, false} {
			b.Run(fmt.Sprintf("keys=%d/noted=%v", keys, noted), func(b *testing.B) {
				a := newAsker(b)
				inline := &limit.Limit{N: 10, Per: time.Hour}
				names := make([]string, keys)
				for i := range names {
					names[i] = fmt.Sprintf("user:%08d", i)
					for a.ask(names[i], 5, inline) == "" {
						a.now = a.now.Add(time.Millisecond)
					}
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					a.requests[0] = admit.Request{Key: names[i*7919%keys], Inline: inline, Limit: "l", N: 1}
					if err := a.live.Take(a.requests, &a.d); err != nil {
						b.Fatal(err)
					}
					if a.d.Denied == nil {
						b.Fatal("it passed")
					}
					if noted {
						a.ring.Note(a.requests, &a.d)
					}
				}
			})
		}
	}
}
