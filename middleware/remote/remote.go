// Package remote decides the requests of a middleware.Middleware by a Weir server, so that
// many processes have one limit together.
//
//	c, err := client.New("http://127.0.0.1:8080", client.Options{})
//	weirs, err := remote.New(c, remote.Options{
//		Limits: map[string]weir.Limit{"per-client": {N: 100, Per: time.Minute}},
//	})
//	m, err := middleware.New(middleware.Config{
//		Decider: weirs,
//		Rules:   []middleware.Rule{{Limit: "per-client", Key: middleware.ByAddress(middleware.AddressOptions{})}},
//	})
//
// A rule's Limit is one of Options.Limits, which is sent with its requests, or a policy of the server. "" is for all
// policies of the server that the key fits. A key that fits none has no limit.
//
// While Weir is unreachable, requests hardly wait. A request waits for Options.Timeout at most. After three failures in a
// row all requests fail at once for Options.Pause. Then one request tries, and so on until Weir answers. Requests that were
// sent at the same time wait at the same time. middleware.Config.Fail says what becomes of those that failed.
//
// If the server does not have a limit, because of a slip in its name or in the server's file, requests are refused with
// middleware.ErrMisconfigured.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/middleware"
)

// Options of the decider. The zero value of every field stands for its default.
type Options struct {
	// Timeout bounds the wait for a decision. Default 100 ms. A decision that comes
	// later may have taken what was asked for.
	Timeout time.Duration

	// Pause is how long nobody asks after failures. Default 1 s.
	Pause time.Duration

	// Outcomes has policies of the server count by the status of answers, as their count_if says. Each request then reserves, and reports
	// the status once it is answered: two calls in place of one. It does not wait for its turn. If it takes more than ten minutes, it
	// stays counted.
	Outcomes bool

	// Limits are those that requests bring along, by name: the server needs no
	// policies for them. Programs with one name count together.
	Limits map[string]weir.Limit
}

type decider struct {
	client   *client.Client
	timeout  time.Duration
	limits   map[string]*client.Limit
	breaker  breaker
	outcomes chan struct{} // as many reports as are under way; nil: there are none
}

// Reports of outcomes.
const (
	mostReports   = 256
	reportTimeout = 5 * time.Second
	reservedFor   = 10 * time.Minute
)

// New returns a Decider that asks the server of c, or an error that names the option at
// fault. It does not connect: a server may come later, and go.
func New(c *client.Client, o Options) (middleware.Decider, error) {
	if c == nil {
		return nil, errors.New("remote: no client: make one with client.New")
	}
	if o.Timeout < 0 || o.Pause < 0 {
		return nil, fmt.Errorf("remote: timeout %v, pause %v: must not be negative", o.Timeout, o.Pause)
	}
	o.Timeout, o.Pause = cmp.Or(o.Timeout, 100*time.Millisecond), cmp.Or(o.Pause, time.Second)
	d := &decider{client: c, timeout: o.Timeout, limits: map[string]*client.Limit{}, breaker: breaker{pause: o.Pause}}
	if o.Outcomes {
		d.outcomes = make(chan struct{}, mostReports)
	}
	for name, l := range o.Limits {
		if _, err := limit.New(l); err != nil {
			return nil, fmt.Errorf("remote: limit %q: %w", name, err)
		}
		if name == "" {
			return nil, errors.New("remote: a limit has no name")
		}
		d.limits[name] = &client.Limit{N: l.N, Per: l.Per, Burst: l.Burst, Algorithm: l.Algorithm.String()}
	}
	return d, nil
}

// Knows can't tell: only the server knows its policies, and it may not be there yet.
func (r *decider) Knows(string) error { return nil }

func (r *decider) Decide(ctx context.Context, checks []middleware.Check, d *middleware.Decision) error {
	asked := make([]client.Check, len(checks))
	for i, c := range checks {
		asked[i] = client.Check{Key: c.Key, Limit: c.Limit, Inline: r.limits[c.Limit], N: c.N}
	}
	t, err := r.breaker.enter()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	answer, id, err := r.ask(limited, asked)
	if err != nil && ctx.Err() != nil {
		r.breaker.done(t, abandoned, nil)
		return err
	}
	o, err := judge(err, d)
	r.breaker.done(t, o, err)
	if err == nil && !d.Never {
		fill(d, &answer)
		if id != "" {
			d.Outcome = func(status int, failed func(error)) { r.report(ctx, id, status, failed) }
		}
	}
	return err
}

// ask asks the server. id is the reservation's, which is to be settled.
func (r *decider) ask(ctx context.Context, asked []client.Check) (answer api.AllowAnswer, id string, err error) {
	if r.outcomes == nil {
		answer, err = r.client.Allow(ctx, asked...)
		return answer, "", err
	}
	made, err := r.client.Reserve(ctx, client.Reservation{TTL: reservedFor}, asked...)
	refused, isError := errors.AsType[*client.Error](err)
	if err != nil && (!isError || refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusTooManyRequests || refused.Code == "") {
		err = &client.NoDecisionError{MayHaveTaken: true, Err: err}
	}
	return made.AllowAnswer, made.ID, err
}

// report settles in the background, so that the client need not wait; with mostReports under way it waits for one of them.
func (r *decider) report(ctx context.Context, id string, status int, failed func(error)) {
	r.outcomes <- struct{}{}
	go func() {
		defer func() { <-r.outcomes }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
		defer cancel()
		if _, err := r.client.SettleCosts(ctx, id, map[string]uint64{api.Outcome: uint64(status)}, false); err != nil {
			failed(err)
		}
	}()
}

// judge returns what an error means: whether Weir answered, and the error for the caller.
func judge(err error, d *middleware.Decision) (outcome, error) {
	var refused *client.Error
	var none *client.NoDecisionError
	switch isNone := errors.As(err, &none); {
	case err == nil:
		return answered, nil
	case errors.As(err, &refused) && refused.Code == "overloaded" && refused.Field == "limit":
		// The memory of limits, or the journal, is full. As in one process, a flood must not be what lifts the limits.
		return answered, err
	case isNone:
		return failed, fmt.Errorf("%w: %w", middleware.ErrUnavailable, err)
	case refused == nil:
		return answered, err
	case refused.Code == "invalid_count" && refused.Field == "n":
		d.Never = true
		return answered, nil
	case refused.Code == "unknown_limit" || refused.Code == "invalid_limit" || refused.Code == "not_found":
		// The configuration of this program or of the server is at fault, not the request.
		return answered, fmt.Errorf("%w: %w", middleware.ErrMisconfigured, err)
	}
	return answered, err
}

// fill writes the server's answer into d.
func fill(d *middleware.Decision, answer *api.AllowAnswer) {
	d.Allowed = answer.Allowed
	for i := range answer.Limits {
		l := &answer.Limits[i]
		d.Add(middleware.Result{
			Limit: l.Name, Key: l.Key, Quota: l.Limit, Window: l.Per(), Burst: l.Burst, Shadow: l.Mode == "shadow",
			Verdict: weir.Verdict{
				Allowed: l.Allowed, Never: l.Never, Remaining: l.Remaining,
				RetryAfter: l.RetryAfter(), Reset: l.Reset(),
			},
		})
	}
}

// failuresToPause is how many failures in a row begin a pause. One may be a packet that was lost.
const failuresToPause = 3

// breaker keeps requests from waiting for a Weir that does not answer. After failuresToPause it fails them at once for a
// pause. Then it lets one try. If that succeeds, all requests ask again; if it fails, the next pause begins.
type breaker struct {
	pause time.Duration

	mu       sync.Mutex // guards all below
	failures int        // in a row, up to failuresToPause: then it is paused
	until    time.Time  // when the pause is over
	trying   bool       // the one is under way
	last     error
	epoch    uint64 // pauses begun and ended
}

// ticket is a request that may ask. Its outcome counts while the epoch lasts: an earlier failure says nothing about the time
// since the last recovery.
type ticket struct {
	epoch uint64
	try   bool // it is the one of a pause
}

// outcome is what came of asking.
type outcome uint8

const (
	answered outcome = iota
	failed
	abandoned // the request went away: nothing is known
)

// enter returns a ticket that done takes back, or an error at once.
func (b *breaker) enter() (ticket, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < failuresToPause {
		return ticket{epoch: b.epoch}, nil
	}
	if b.trying || time.Now().Before(b.until) {
		return ticket{}, fmt.Errorf("%w: not asked for a while, after: %w", middleware.ErrUnavailable, b.last)
	}
	b.trying = true
	return ticket{b.epoch, true}, nil
}

// done takes a ticket back. err is why it failed.
func (b *breaker) done(t ticket, o outcome, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.try {
		b.trying = false
	}
	switch {
	case t.epoch != b.epoch || o == abandoned:
	case o == answered:
		if b.failures = 0; t.try {
			b.epoch++
		}
	case t.try:
		b.until, b.last = time.Now().Add(b.pause), err
	default:
		b.last = err
		if b.failures++; b.failures == failuresToPause {
			b.epoch++
			b.until = time.Now().Add(b.pause)
		}
	}
}
