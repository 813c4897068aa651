package client

import (
	"context"
	"errors"
	"github.com/weir-counter/weir/api"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const deniedBody = `{"allowed":false,"retry_after_s":1.5,"limits":[{"name":"login","key":"a","mode":"enforce","allowed":false,"n":1,"limit":5,"per_s":60,"burst":5,"remaining":0,"retry_after_s":1.5,"reset_s":60}]}`

// Whatever happens, there is one attempt.
func TestAllowOutcomes(t *testing.T) {
	problem := http.Header{"Content-Type": {"application/problem+json"}}
	for _, test := range []struct {
		name    string
		answer  func() (*http.Response, error)
		allowed bool
		code    string // of an *Error that is no NoDecisionError
		none    bool   // a NoDecisionError
		maybe   bool   // that may have taken
	}{
		{name: "allowed", answer: func() (*http.Response, error) { return respond(200, nil, `{"allowed":true,"limits":[]}`), nil }, allowed: true},
		{name: "denied", answer: func() (*http.Response, error) { return respond(429, nil, deniedBody), nil }},
		{name: "wrong request", answer: func() (*http.Response, error) {
			return respond(400, problem, `{"code":"invalid_count","detail":"never"}`), nil
		}, code: "invalid_count"},
		{name: "unknown limit", answer: func() (*http.Response, error) {
			return respond(404, problem, `{"code":"unknown_limit","detail":"no"}`), nil
		}, code: "unknown_limit"},
		{name: "no space", answer: func() (*http.Response, error) {
			return respond(503, problem, `{"code":"overloaded","detail":"full"}`), nil
		}, none: true},
		{name: "refused", answer: func() (*http.Response, error) { return nil, &net.OpError{Op: "dial", Err: errors.New("refused")} }, none: true},
		{name: "lost", answer: func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, none: true, maybe: true},
		{name: "a proxy's 502", answer: func() (*http.Response, error) { return respond(502, http.Header{}, "bad gateway"), nil }, none: true, maybe: true},
		{name: "a proxy's 429", answer: func() (*http.Response, error) { return respond(429, http.Header{}, "slow down"), nil }, none: true, maybe: true},
		{name: "a proxy's 404", answer: func() (*http.Response, error) { return respond(404, http.Header{}, "?"), nil }, none: true, maybe: true},
		{name: "something else's 200", answer: func() (*http.Response, error) { return respond(200, nil, `{"status":"ok"}`), nil }, none: true, maybe: true},
		{name: "cut", answer: func() (*http.Response, error) { return respond(200, nil, `{"allowed":true,"lim`), nil }, none: true, maybe: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, tr := newTest(t, func(int, *http.Request) (*http.Response, error) { return test.answer() }, Options{})
			d, err := c.Allow(t.Context(), Check{Key: "a"})
			var none *NoDecisionError
			var refused *Error
			isNone := errors.As(err, &none)
			switch {
			case tr.attempts != 1:
				t.Errorf("%d attempts", tr.attempts)
			case isNone != test.none || isNone && none.MayHaveTaken != test.maybe:
				t.Errorf("got %v", err)
			case test.code != "" && (!errors.As(err, &refused) || string(refused.Code) != test.code):
				t.Errorf("got %v, want %s", err, test.code)
			case !test.none && test.code == "" && err != nil || d.Allowed != test.allowed:
				t.Errorf("got %+v, %v", d, err)
			case test.name == "denied" && (d.RetryAfter() != 1500*time.Millisecond || d.Limits[0].Burst != 5):
				t.Errorf("got %+v", d)
			}
			if _, err := c.Peek(t.Context(), Check{Key: "a"}); errors.As(err, &none) && none.MayHaveTaken {
				t.Error("a peek may have taken")
			}
		})
	}
}

func TestAllowDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, tr := newTest(t, func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := c.Allow(ctx, Check{Key: "a"})
		var none *NoDecisionError
		if !errors.As(err, &none) || !none.MayHaveTaken || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "may have been taken") {
			t.Errorf("got %v", err)
		}
		// The deadline is over: nothing is sent at all.
		if _, err = c.Allow(ctx, Check{Key: "a"}); !errors.As(err, &none) || none.MayHaveTaken || tr.attempts != 1 {
			t.Errorf("got %v after %d attempts", err, tr.attempts)
		}
	})
}

func TestAllowBody(t *testing.T) {
	var body string
	c, _ := newTest(t, func(_ int, r *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(r.Body)
		body = string(b)
		return respond(200, nil, `{"allowed":true,"limits":[]}`), err
	}, Options{})
	if _, err := c.Peek(t.Context(), Check{Key: "a"}, Check{Key: "b", Limit: "login", N: 3},
		Check{Key: "c", Limit: "own", Inline: &Limit{N: 10, Per: 1500*time.Millisecond + 1, Burst: 2, Algorithm: "gcra"}}); err != nil {
		t.Fatal(err)
	}
	if want := `{"checks":[{"key":"a"},{"key":"b","limit":"login","n":3},{"key":"c","limit":{"name":"own","n":10,"per":"1.500000001","burst":2,"algorithm":"gcra"}}],"peek":true}`; body != want {
		t.Errorf("got %s, want %s", body, want)
	}
}

func TestSecondsAreRounded(t *testing.T) {
	l := api.LimitState{PerSeconds: 1.0005, RetryAfterSeconds: 4.35, ResetSeconds: 0.29}
	if l.Per() != 1000500*time.Microsecond || l.RetryAfter() != 4350*time.Millisecond || l.Reset() != 290*time.Millisecond {
		t.Errorf("got %v, %v, %v", l.Per(), l.RetryAfter(), l.Reset())
	}
}
