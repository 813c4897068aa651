// Package policies decides the requests of a middleware.Middleware by a file of policies, in this process.
//
//	set, err := policy.Parse(name, text)
//	decider, err := policies.New(engine, set)
//	m, err := middleware.New(middleware.Config{
//		Decider: decider,
//		Rules:   []middleware.Rule{{Key: middleware.ByAddress(middleware.AddressOptions{})}},
//	})
//
// A rule without a Limit asks all policies that its key fits, so `keys: "address:*"` is
// for the rule above. One that fits none has no limit. A rule with a Limit asks that
// policy alone, and a request whose key does not fit it is refused.
package policies

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/middleware"
	"github.com/weir-counter/weir/policy"
)

// Decider decides by policies, in this process. It is safe for many goroutines.
//
// Requests of a rule whose policy was removed are refused, with middleware.ErrMisconfigured, until it is back. Otherwise a
// slip in the file would silently lift the limit.
type Decider struct {
	engine *engine.Engine
	live   *admit.Live
	pool   sync.Pool // of *work
}

// New returns a Decider by the policies of set. What keys have used of them is kept by e, which counts decisions too.
func New(e *weir.Engine, set *policy.Set) (*Decider, error) {
	live, err := admit.NewLive((*engine.Engine)(e), set)
	if err != nil {
		return nil, err
	}
	return &Decider{engine: (*engine.Engine)(e), live: live}, nil
}

// Replace decides by the policies of set from now on. What keys have used of a policy that keeps its name
// counts on. On an error the policies before stay in force.
func (p *Decider) Replace(set *policy.Set) error { return p.live.Replace(set) }

// work is the memory of one decision.
type work struct {
	requests []admit.Request
	decision admit.Decision
}

// Knows returns an error unless there is a policy of the name: see middleware.Decider.
func (p *Decider) Knows(name string) error {
	if name == "" {
		return nil
	}
	if _, ok := p.live.Limit(name); !ok {
		return fmt.Errorf("no policy %q: write it into the file, or leave Limit out for all that the key fits", name)
	}
	return nil
}

// Decide takes the limits of all policies that the checks fit, all or none. It waits for the turn of requests no longer than until ctx is
// done: then it has taken nothing, and the error is context.Canceled. What passes only after the deadline of ctx is denied at once.
func (p *Decider) Decide(ctx context.Context, checks []middleware.Check, d *middleware.Decision) error {
	k, ok := p.pool.Get().(*work)
	if !ok {
		k = new(work)
	}
	defer p.release(k)
	for _, c := range checks {
		k.requests = append(k.requests, admit.Request{Key: c.Key, Limit: c.Limit, N: c.N})
	}
	k.decision.Context = ctx
	k.decision.Until, _ = ctx.Deadline()
	var err error
	if p.live.Set().HasOutcomes() {
		d.Outcome, err = p.takeForOutcome(k)
	} else {
		err = p.live.Take(k.requests, &k.decision)
	}
	if err != nil {
		if e, ok := errors.AsType[*weir.Error](err); ok && e.Code == api.CodeInvalidLimit {
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

// reservedFor is how long a request may run and still be given back.
const reservedFor = 10 * time.Minute

// takeForOutcome decides where policies count some answers only. outcome is nil if none of them is for the requests.
func (p *Decider) takeForOutcome(k *work) (outcome func(int, func(error)), err error) {
	id := rand.Text()
	reserved, err := p.live.TakeForOutcome(k.requests, engine.Reservation{ID: id, Until: p.engine.Wall().Time().Add(reservedFor)}, &k.decision)
	if !reserved || err != nil {
		return nil, err
	}
	return func(status int, failed func(error)) {
		if _, err := p.live.Settle(id, admit.Used{Costs: []admit.Cost{{Field: api.Outcome, N: uint64(status)}}}, false, nil); err != nil {
			failed(err)
		}
	}, nil
}

func (p *Decider) release(k *work) {
	clear(k.requests)
	k.requests = k.requests[:0]
	k.decision.Context, k.decision.Until = nil, time.Time{}
	p.pool.Put(k)
}
