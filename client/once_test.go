package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/weir-counter/weir/api"
)

// A batch has one key in all its attempts, and no other batch has it.
func TestIdempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		c, _ := newTest(t, func(attempt int, r *http.Request) (*http.Response, error) {
			keys = append(keys, r.Header.Get("Idempotency-Key"))
			if attempt == 1 {
				return nil, io.ErrUnexpectedEOF
			}
			return respond(200, nil, `{"counted":1,"rejected":[]}`), nil
		}, Options{})
		for range 2 {
			if _, err := c.Send(t.Context(), []Hit{{Key: "a"}}); err != nil {
				t.Fatal(err)
			}
		}
		if len(keys) != 3 || len(keys[0]) < 20 || keys[1] != keys[0] || keys[2] == keys[0] {
			t.Errorf("keys %q: want one for the first two attempts and another for the third", keys)
		}
	})
}

func TestDurable(t *testing.T) {
	c, tr := newTest(t, func(attempt int, r *http.Request) (*http.Response, error) {
		if r.URL.RawQuery != "durable=true" {
			t.Errorf("query %q", r.URL.RawQuery)
		}
		if attempt == 1 {
			return respond(200, nil, `{"counted":1,"rejected":[],"durable":true}`), nil
		}
		return respond(503, http.Header{"Content-Type": {"application/problem+json"}},
			`{"status":503,"code":"not_durable","detail":"late","counted":2,"rejected":[]}`), nil
	}, Options{Durable: true, Retries: -1})
	receipt, err := c.Send(t.Context(), []Hit{{Key: "a"}})
	if err != nil || !receipt.Durable || receipt.Counted != 1 {
		t.Errorf("got %+v, %v", receipt, err)
	}
	receipt, err = c.Send(t.Context(), []Hit{{Key: "a", N: 2}})
	var refused *Error
	if !errors.As(err, &refused) || !refused.NotDurable() || receipt.Durable || receipt.Counted != 2 || tr.attempts != 2 {
		t.Errorf("got %+v, %v after %d attempts", receipt, err, tr.attempts)
	}
}

// What an overloaded server left is sent again, alone and under another key.
func TestOverloadedPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys, bodies []string
		answers := []string{
			`{"counted":1,"rejected_lines":3,"rejected":[{"line":1,"code":"x","message":"bad"},{"line":3,"code":"overloaded","message":"y"},{"line":4,"code":"overloaded","message":"y"}],"retry_from":3}`,
			`{"counted":1,"rejected_lines":1,"rejected":[{"line":2,"code":"x","message":"bad"}]}`,
		}
		network := func(attempt int, r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(body))
			return respond(200, nil, answers[attempt-1]), nil
		}
		hits := []Hit{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "d"}}
		c, tr := newTest(t, network, Options{})
		r, err := c.Send(t.Context(), hits)
		if err != nil || r.Counted != 2 || r.Rejected != 2 || len(r.Reasons) != 2 || r.Reasons[0].Line != 1 || r.Reasons[1].Line != 4 {
			t.Errorf("got %+v, %v", r, err)
		}
		if got := fmt.Sprint(tr.at); got != "[0s 1s]" || keys[0] == keys[1] || bodies[1] != "{\"key\":\"c\"}\n{\"key\":\"d\"}\n" {
			t.Errorf("requests at %s, keys %q, bodies %q", got, keys, bodies)
		}

		c, tr = newTest(t, network, Options{Retries: -1})
		r, err = c.Send(t.Context(), hits)
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != api.CodeOverloaded || tr.attempts != 1 || r.Counted != 1 || r.Rejected != 3 {
			t.Errorf("without retries: %+v, %v", r, err)
		}
		if i := slices.IndexFunc(r.Reasons, func(r api.RejectedLine) bool { return r.Code == api.CodeOverloaded }); i < 0 {
			t.Error("without retries the receipt does not name the lines that were refused")
		}
	})
}
