package node

import (
	"context"
	"strings"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/query"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/backend"
)

// routed is a router as the service knows it.
type routed struct {
	*query.Router
	upTo uint64 // message of the journal that is in the answers
}

var _ service.Answers = routed{}

func (r routed) Counts(ctx context.Context, questions []service.CountQuestion, counts []weir.Count) ([]weir.Count, service.Fresh, error) {
	of := make([]query.CountQuestion, len(questions))
	for i, q := range questions {
		of[i] = query.CountQuestion(q)
		of[i].Key = strings.Clone(q.Key) // who asks together with others waits for them longer
	}
	answers, fresh, err := r.Router.After(r.upTo).Counts(ctx, of)
	return append(counts, answers...), freshOf(fresh), err
}

func (r routed) Series(ctx context.Context, key string, from, to time.Time, step time.Duration) ([]weir.Point, service.Fresh, error) {
	points, fresh, err := r.Router.After(r.upTo).Series(ctx, key, from, to, step)
	return points, freshOf(fresh), err
}

func (r routed) Top(ctx context.Context, at time.Time, w time.Duration, n int, prefix string) ([]weir.KeyCount, service.Fresh, error) {
	keys, fresh, err := r.Router.After(r.upTo).Top(ctx, at, w, n, prefix)
	return keys, freshOf(fresh), err
}

func (r routed) Keys(ctx context.Context, prefix, after string, limit int) ([]string, service.Fresh, error) {
	keys, fresh, err := r.Router.After(r.upTo).Keys(ctx, prefix, after, limit)
	return keys, freshOf(fresh), err
}

func (r routed) After(upTo uint64) service.Answers { return routed{r.Router, upTo} }

func freshOf(f query.Fresh) service.Fresh {
	fresh := service.Fresh{AsOf: f.AsOf}
	for _, l := range f.Late {
		fresh.Late = append(fresh.Late, backend.LateNode{Name: l.Node, Since: l.Since})
	}
	return fresh
}
