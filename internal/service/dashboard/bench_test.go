package dashboard

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
)

// What the view of all keys costs, by how many there are: asked for once, and again and again.
func BenchmarkOverview(b *testing.B) {
	for _, keys := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			e, err := engine.New(engine.Config{Memory: 1 << 30})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			for i := range keys {
				if err := e.Hit(fmt.Sprintf("url:/products/%d", i)); err != nil {
					b.Fatal(err)
				}
			}
			s, err := service.New(service.Backend{Engine: e}, service.Config{})
			if err != nil {
				b.Fatal(err)
			}
			q := OverviewQuery{Window: 5 * time.Minute, N: 15}
			view := func(lists *Answers) (api.OverviewAnswer, error) {
				keys, err := Shared(b.Context(), lists, "", func(ctx context.Context) ([]string, error) { return q.Keys(ctx, s, access.Caller{}) })
				if err != nil {
					b.Fatal(err)
				}
				return OverviewView(b.Context(), s, access.Caller{}, q, keys)
			}
			b.Run("once", func(b *testing.B) {
				for b.Loop() {
					if _, err := view(new(Answers)); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("again", func(b *testing.B) {
				var lists Answers
				for b.Loop() {
					if _, err := view(&lists); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
