// Package policies decides the requests of a middleware.Middleware by a file of policies,
// in this process.
//
//	live, err := admit.NewLive(engine, set)
//	m, err := middleware.New(middleware.Config{
//		Decider: policies.Decider(live),
//		Rules:   []middleware.Rule{{Key: middleware.ByAddress(middleware.AddressOptions{})}},
//	})
//
// A rule without a Limit asks all policies that its key fits, so `keys: "address:*"` is
// for the rule above. One that fits none has no limit. A rule with a Limit asks that
// policy alone, and a request whose key does not fit it is refused.
package policies

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/middleware"
	"github.com/weir-counter/weir/policy"
)

// Decider decides by the policies of live, also after they were replaced. Requests of a
// rule whose policy was taken out are refused, with middleware.ErrMisconfigured, until it
// is put back: else a slip in the file would lift the limit, and nobody would see it.
func Decider(live *admit.Live) middleware.Decider { return &decider{live: live} }

type decider struct {
	live *admit.Live
	pool sync.Pool // of *work
}

// work is the memory of one decision.
type work struct {
	requests []admit.Request
	decision admit.Decision
}

func (p *decider) Knows(name string) error {
	if name == "" {
		return nil
	}
	if _, ok := p.live.Limit(name); !ok {
		return fmt.Errorf("no policy %q: write it into the file, or leave Limit out for all that the key fits", name)
	}
	return nil
}

func (p *decider) Decide(_ context.Context, checks []middleware.Check, d *middleware.Decision) error {
	k, ok := p.pool.Get().(*work)
	if !ok {
		k = new(work)
	}
	defer p.release(k)
	for _, c := range checks {
		k.requests = append(k.requests, admit.Request{Key: c.Key, Limit: c.Limit, N: c.N})
	}
	if err := p.live.Take(k.requests, &k.decision); err != nil {
		var e *weir.Error
		if errors.As(err, &e) && e.Code == weir.CodeInvalidLimit {
			return fmt.Errorf("%w: %w", middleware.ErrMisconfigured, err)
		}
		return err
	}
	d.Allowed = k.decision.Allowed
	for _, r := range k.decision.Results {
		d.Add(middleware.Result{
			Limit: r.Name, Key: r.Key, Quota: r.Limit.N, Window: r.Limit.Per, Burst: r.Limit.Burst,
			Shadow: r.Mode == policy.Shadow, Verdict: r.Verdict,
		})
	}
	return nil
}

func (p *decider) release(k *work) {
	clear(k.requests)
	k.requests = k.requests[:0]
	p.pool.Put(k)
}
