package middleware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
)

// decides is a Decider made of a function.
type decides func(context.Context, *Decision) error

func (f decides) Knows(string) error { return nil }
func (f decides) Decide(ctx context.Context, _ []Check, d *Decision) error {
	return f(ctx, d)
}

func TestFail(t *testing.T) {
	away := fmt.Errorf("%w: connection refused", ErrUnavailable)
	full := &weir.Error{Code: api.CodeOverloaded, Message: "full"}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name     string
		fail     Fail
		ctx      context.Context
		err      error
		status   int
		reported bool
		want     Stats
	}{
		{"away, open", FailOpen, t.Context(), away, 200, true, Stats{FailedOpen: 1}},
		{"away, closed", FailClosed, t.Context(), away, 503, true, Stats{Refused: 1}},
		{"full, open", FailOpen, t.Context(), full, 503, true, Stats{Refused: 1}},
		{"full, closed", FailClosed, t.Context(), full, 503, true, Stats{Refused: 1}},
		{"gone, open", FailOpen, gone, away, 503, false, Stats{Gone: 1}},
		{"gone, closed", FailClosed, gone, away, 503, false, Stats{Gone: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			next, calls := handled()
			var reported error
			m := newMiddleware(t, Config{
				Decider: decides(func(context.Context, *Decision) error { return test.err }),
				Rules:   []Rule{{Key: byAddress}},
				Fail:    test.fail,
				OnError: func(_ *http.Request, err error) { reported = err },
			})
			answer := ask(m.Wrap(next), request().WithContext(test.ctx))
			if answer.StatusCode != test.status || m.Stats() != test.want || (calls() == 1) != (test.status == 200) {
				t.Errorf("%d %+v, %d calls", answer.StatusCode, m.Stats(), calls())
			}
			if test.reported != errors.Is(reported, test.err) {
				t.Errorf("reported %v", reported)
			}
			if test.status == 503 && answer.Header.Get("Retry-After") != "1" {
				t.Errorf("header %v", answer.Header)
			}
		})
	}
}

// A flood of keys fills the engine's memory of limits, and lifts none of them.
func TestFloodOfKeys(t *testing.T) {
	c := newClock()
	e, err := weir.New(weir.Config{Now: c.Now, LimitMemory: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	next, calls := handled()
	h := newMiddleware(t, Config{
		Decider: Limits(e, newLimit(t, e, "tenant", 1, time.Hour)),
		Rules:   []Rule{{Limit: "tenant", Key: ByPlainHeader("X-Tenant")}},
		OnError: func(*http.Request, error) {},
	}).Wrap(next)
	refused := 0
	for i := range 20_000 {
		if ask(h, request("X-Tenant", fmt.Sprint(i))).StatusCode == 503 {
			refused++
		}
	}
	if refused == 0 || refused+calls() != 20_000 {
		t.Fatalf("%d refused, %d passed", refused, calls())
	}
	for i := range 20_000 {
		if ask(h, request("X-Tenant", fmt.Sprint(i))).StatusCode == 200 {
			t.Fatalf("tenant %d passed again", i)
		}
	}
	c.add(time.Hour)
	if status := ask(h, request("X-Tenant", "0")).StatusCode; status != 200 {
		t.Errorf("an hour later: %d", status)
	}
}

// Limits of policies in shadow mode are not shown, and deny nothing.
func TestShadowIsHidden(t *testing.T) {
	next, _ := handled()
	h := newMiddleware(t, Config{
		Decider: decides(func(_ context.Context, d *Decision) error {
			d.Allowed = true
			d.Add(Result{Limit: "new", Shadow: true, Verdict: weir.Verdict{RetryAfter: time.Hour}})
			return nil
		}),
		Rules: []Rule{{Key: byAddress}},
	}).Wrap(next)
	answer := ask(h, request())
	if answer.StatusCode != 200 || answer.Header.Get("RateLimit") != "" || answer.Header.Get("RateLimit-Policy") != "" {
		t.Errorf("%d %v", answer.StatusCode, answer.Header)
	}
}

// Of several limits that deny, the longest wait counts, and those alone are named.
func TestSeveralDeny(t *testing.T) {
	next, _ := handled()
	h := newMiddleware(t, Config{
		Decider: decides(func(_ context.Context, d *Decision) error {
			d.Add(Result{Limit: "hour", Quota: 1, Window: time.Hour, Verdict: weir.Verdict{RetryAfter: time.Hour, Reset: time.Hour}})
			d.Add(Result{Limit: "minute", Quota: 1, Window: time.Minute, Verdict: weir.Verdict{RetryAfter: time.Minute, Reset: time.Minute}})
			d.Add(Result{Limit: "trial", Shadow: true, Verdict: weir.Verdict{RetryAfter: 24 * time.Hour, Never: true}})
			d.Add(Result{Limit: "free", Quota: 9, Window: 3 * time.Hour, Verdict: weir.Verdict{Allowed: true, Remaining: 4, Reset: 3 * time.Hour}})
			return nil
		}),
		Rules: []Rule{{Key: byAddress}},
	}).Wrap(next)
	answer := ask(h, request())
	if got, want := answer.Header.Get("RateLimit"), `"hour";r=0;t=3600, "minute";r=0;t=60, "free";r=4;t=3600`; got != want || answer.Header.Get("Retry-After") != "3600" {
		t.Errorf("%s, Retry-After %s", got, answer.Header.Get("Retry-After"))
	}
	if body, _ := io.ReadAll(answer.Body); !strings.Contains(string(body), `"violated-policies":["hour","minute"]`) {
		t.Errorf("%s", body)
	}
}
