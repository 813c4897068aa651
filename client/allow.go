package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-counter/weir/api"
)

// Check asks limits for admissions of a key.
type Check struct {
	Key string
	// Limit names the one policy of the server that is asked. Empty: all that apply to the key. With Inline it is the
	// name of the inline limit.
	Limit string
	// Inline is a limit that is sent with the request, in place of the server's policies.
	Inline *Limit
	// N is how many admissions are asked for. 0 stands for 1.
	N uint64
	// Costs are what policies with a cost take in place of N, such as "tokens": 812.
	Costs map[string]uint64
}

// Limit is N admissions per period Per, with bursts of Burst.
type Limit struct {
	N         uint64
	Per       time.Duration // 1 ms to a maximum that the server sets, by default a day; Per*Burst/N too
	Burst     uint64        // 0: N
	Algorithm string        // window, fixed or gcra; empty: window
}

// NoDecisionError says that the server did not decide: no node answered in time, or the node that answered could not decide.
// The caller chooses whether to let the request pass.
type NoDecisionError struct {
	// MayHaveTaken reports that the server may have taken admissions, and only its answer got lost. If false, it took nothing.
	MayHaveTaken bool
	Err          error
}

func (e *NoDecisionError) Error() string {
	if e.MayHaveTaken {
		return fmt.Sprintf("no decision: %v (admissions may have been taken)", e.Err)
	}
	return fmt.Sprintf("no decision: %v", e.Err)
}

// Unwrap returns what happened.
func (e *NoDecisionError) Unwrap() error { return e.Err }

// Allow asks whether a request may pass, and takes what it asks for: all checks or none, at most 64. A denial is an answer and
// no error.
//
// Allow makes one attempt, whatever Options.Retries says, because a second attempt could take twice. Another node is asked only
// if the first one took nothing: it could not be reached, or it said so. Use a short Options.Timeout or a ctx with a deadline.
// After a *NoDecisionError the caller chooses whether to let the request pass. An *Error is a wrong request, such as an
// unknown limit, or more than a burst, which can never pass.
func (c *Client) Allow(ctx context.Context, checks ...Check) (api.AllowAnswer, error) {
	return c.decide(ctx, checks, false)
}

// Peek returns what Allow would decide: it takes and counts nothing.
func (c *Client) Peek(ctx context.Context, checks ...Check) (api.AllowAnswer, error) {
	return c.decide(ctx, checks, true)
}

func (c *Client) decide(ctx context.Context, checks []Check, peek bool) (d api.AllowAnswer, err error) {
	r, err := request{path: "/v1/allow"}.withJSON(asAllow(checks, peek))
	if err != nil {
		return d, err
	}
	if err := ctx.Err(); err != nil {
		return d, &NoDecisionError{Err: context.Cause(ctx)}
	}
	text, err := c.askAround(ctx, r, peek)
	switch refused, isError := errors.AsType[*Error](err); {
	case err == nil, isError && refused.Status == http.StatusTooManyRequests && refused.Code == "":
		if bad := decode(text, &d); bad != nil || d.Limits == nil {
			return api.AllowAnswer{}, &NoDecisionError{MayHaveTaken: !peek, Err: errors.Join(err, bad, errNoVerdict)}
		}
		return d, nil
	case !isError:
		return d, &NoDecisionError{MayHaveTaken: !peek && !neverSent(err), Err: err}
	case refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusTooManyRequests || refused.Code == "":
		// A Weir server that gives a code took nothing; a proxy does not know.
		return d, &NoDecisionError{MayHaveTaken: !peek && refused.Code == "", Err: err}
	}
	return d, err
}

// asAllow returns checks as they are sent.
func asAllow(checks []Check, peek bool) api.AllowObject {
	asked := api.AllowObject{Checks: make([]api.AllowCheck, len(checks)), Peek: peek}
	for i, check := range checks {
		asked.Checks[i] = api.AllowCheck{Key: check.Key, N: check.N, Costs: check.Costs, Limit: api.AllowLimit{Name: check.Limit}}
		if l := check.Inline; l != nil {
			asked.Checks[i].Limit.Inline = &api.InlineLimit{Name: check.Limit, N: l.N, Per: api.Period(l.Per), Burst: l.Burst, Algorithm: l.Algorithm}
		}
	}
	return asked
}

// askAround asks one node after the other, each once, until one decides. Unless it is a peek, it stops after a node that may
// have taken.
func (c *Client) askAround(ctx context.Context, r request, peek bool) (text []byte, err error) {
	first := c.nodes.first()
	for i := range c.nodes.count() {
		text, err = c.attempt(ctx, c.nodes.after(first, i), r)
		refused, isError := errors.AsType[*Error](err)
		unable := isError && refused.Status >= http.StatusInternalServerError && (peek || refused.tookNothing()) || !isError && (peek || neverSent(err))
		if err == nil || !unable || ctx.Err() != nil {
			break
		}
	}
	return text, err
}

var errNoVerdict = errors.New("the answer has no verdicts: is a Weir server at this address?")

// Permit is permission to hold a key, which at most max callers have at once (policy field max). It belongs to one goroutine.
type Permit struct {
	ID        string
	TTL       time.Duration // after a heartbeat: how long it is held
	Unmatched bool          // no limit with max applies to the key

	// Until is when another caller may have the permit, by the clock of this machine: TTL after the last heartbeat was sent that
	// was answered. Stop then, or there may be more than max.
	Until time.Time

	client *Client
}

// ErrPermitLost is the error of a permit that is not held, or no longer. Stop, and take another.
var ErrPermitLost = errors.New("the permit is lost")

// Acquire takes a permit for a key, of all policies with max that apply to it, or of the one that limit names. If max are
// held, the error is an *Error with api.CodeAtOnce. Its After says when the first is free if its holder stays silent. Acquire
// makes one attempt. If its answer gets lost, it may have taken a permit, which is free after its ttl.
func (c *Client) Acquire(ctx context.Context, key, limit string) (*Permit, error) {
	v := values("limit", limit)
	v.Set("key", key)
	p := &Permit{client: c}
	return p, p.ask(ctx, request{method: http.MethodPost, path: "/v1/permits", query: v})
}

// Heartbeat keeps the permit for TTL more. Once the permit is lost, the error wraps ErrPermitLost. After any other error, the
// permit is held until Until.
func (p *Permit) Heartbeat(ctx context.Context) error {
	return p.ask(ctx, request{method: http.MethodPost, path: "/v1/permits/" + segment(p.ID) + "/heartbeat"})
}

func (p *Permit) ask(ctx context.Context, r request) error {
	sent := time.Now()
	text, err := p.client.attempt(ctx, p.client.nodes.first(), r)
	var refused *Error
	switch {
	case errors.As(err, &refused) && refused.Code == api.CodePermitLost:
		return fmt.Errorf("%w: %w", ErrPermitLost, err)
	case err != nil:
		return err
	}
	if had := !p.Until.IsZero(); had && !time.Now().Before(p.Until) {
		return fmt.Errorf("%w: the answer to its heartbeat came when its time was over: another may have it", ErrPermitLost)
	}
	var answer api.PermitAnswer
	if err := decode(text, &answer); err != nil {
		return err
	}
	p.ID, p.TTL, p.Unmatched, p.Until = answer.ID, answer.TTL(), answer.Unmatched, sent.Add(answer.TTL())
	return nil
}

// Release gives the permit back. It may be repeated.
func (p *Permit) Release(ctx context.Context) error {
	_, err := p.client.do(ctx, request{method: http.MethodDelete, path: "/v1/permits/" + segment(p.ID)})
	return err
}

// Hold runs work with a permit for a key. It takes one as Acquire does, sends heartbeats every third of the ttl, and gives it
// back when work returns. Once the permit is lost, or no heartbeat was answered within its ttl, the context of work ends with
// a cause that is ErrPermitLost. Hold returns the error of work, or of Acquire: then work did not begin.
func (c *Client) Hold(ctx context.Context, key, limit string, work func(ctx context.Context) error) error {
	p, err := c.Acquire(ctx, key, limit)
	if err != nil {
		return err
	}
	working, stop := context.WithCancelCause(ctx)
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		p.beat(working, stop)
	}()
	err = work(working)
	stop(nil)
	<-beating
	giving, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(p.TTL, 5*time.Second))
	defer cancel()
	_ = p.Release(giving) // without an answer it is free after its ttl
	return err
}

// beat sends heartbeats until working ends, and ends it when the permit is lost.
func (p *Permit) beat(working context.Context, stop context.CancelCauseFunc) {
	for {
		next := time.NewTimer(min(p.TTL/3, time.Until(p.Until)))
		select {
		case <-working.Done():
			next.Stop()
			return
		case <-next.C:
		}
		asking, cancel := context.WithDeadline(working, p.Until)
		err := p.Heartbeat(asking)
		cancel()
		if errors.Is(err, ErrPermitLost) {
			stop(err)
			return
		}
		if !time.Now().Before(p.Until) {
			stop(fmt.Errorf("%w: no heartbeat was answered within its ttl: %w", ErrPermitLost, err))
			return
		}
	}
}
