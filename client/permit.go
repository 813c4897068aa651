package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-counter/weir/api"
)

// Permit is one of so many that hold a key at once: a policy with max. It belongs to one goroutine.
type Permit struct {
	ID        string
	TTL       time.Duration // after a heartbeat: how long it is held
	Unmatched bool          // no limit with max is for the key

	// Until is when it may be another's, by this machine's clock: TTL after the last heartbeat was sent that was
	// answered. Who works on after that works beside max others.
	Until time.Time

	client *Client
}

// ErrPermitLost is the error of a permit that is not held, or no longer. Stop, and take another.
var ErrPermitLost = errors.New("the permit is lost")

// Acquire takes a permit for a key, of all policies with max that are for it, or of the one that limit names. When as many
// are held as may be, the error is an *Error with api.CodeAtOnce, whose After says when the first is free
// if its holder is silent. It makes one attempt: one whose answer got lost may have taken a permit, which is free after its ttl.
func (c *Client) Acquire(ctx context.Context, key, limit string) (*Permit, error) {
	v := url.Values{"key": {key}}
	if limit != "" {
		v.Set("limit", limit)
	}
	p := &Permit{client: c}
	return p, p.ask(ctx, request{method: http.MethodPost, path: "/v1/permits", query: v})
}

// Heartbeat keeps the permit for TTL more. The error wraps ErrPermitLost once it is lost; after another, such as of a network,
// it is held until Until.
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

// Release gives the permit back. It may be called again.
func (p *Permit) Release(ctx context.Context) error {
	_, err := p.client.do(ctx, request{method: http.MethodDelete, path: "/v1/permits/" + segment(p.ID)})
	return err
}

// Hold runs work with a permit for a key: it takes one as Acquire does, sends heartbeats every third of the ttl, and gives it back when
// work returns. Once the permit is lost, or may be for want of answers, work's context ends with a cause that is
// ErrPermitLost. It returns what work does, or why there was no permit: errors of Acquire come before work began.
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
