package node

import (
	"context"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/journal/route"
	"github.com/weir-counter/weir/server"
)

// routed is a router as the server knows it.
type routed struct {
	*route.Router
	upTo uint64 // message of the journal that is in the answers
}

var _ server.Answers = routed{}

func (r routed) Counts(ctx context.Context, questions []server.CountQuestion) ([]weir.Count, server.Fresh, error) {
	of := make([]route.CountQuestion, len(questions))
	for i, q := range questions {
		of[i] = route.CountQuestion(q)
	}
	counts, fresh, err := r.Router.After(r.upTo).Counts(ctx, of)
	return counts, freshOf(fresh), err
}

func (r routed) Series(ctx context.Context, key string, from, to time.Time, step time.Duration) ([]weir.Point, server.Fresh, error) {
	points, fresh, err := r.Router.After(r.upTo).Series(ctx, key, from, to, step)
	return points, freshOf(fresh), err
}

func (r routed) Top(ctx context.Context, at time.Time, w time.Duration, n int, prefix string) ([]weir.KeyCount, server.Fresh, error) {
	keys, fresh, err := r.Router.After(r.upTo).Top(ctx, at, w, n, prefix)
	return keys, freshOf(fresh), err
}

func (r routed) Keys(ctx context.Context, prefix, after string, limit int) ([]string, server.Fresh, error) {
	keys, fresh, err := r.Router.After(r.upTo).Keys(ctx, prefix, after, limit)
	return keys, freshOf(fresh), err
}

func (r routed) After(upTo uint64) server.Answers { return routed{r.Router, upTo} }

func freshOf(f route.Fresh) server.Fresh {
	fresh := server.Fresh{AsOf: f.AsOf}
	for _, l := range f.Late {
		fresh.Late = append(fresh.Late, server.LateNode{Name: l.Node, Since: l.Since})
	}
	return fresh
}
