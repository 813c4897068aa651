package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// network answers the attempts of a request, in memory.
type network func(attempt int, r *http.Request) (*http.Response, error)

type transport struct {
	network
	attempts int
	at       []time.Duration // since the first attempt
	start    time.Time
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.start.IsZero() {
		t.start = time.Now()
	}
	t.at = append(t.at, time.Since(t.start))
	t.attempts++
	return t.network(t.attempts, r)
}

func respond(status int, header http.Header, body string) *http.Response {
	if header == nil {
		header = http.Header{"Content-Type": {"application/json"}}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

func newTest(t *testing.T, n network, o Options) (*Client, *transport) {
	t.Helper()
	tr := &transport{network: n}
	o.HTTPClient = &http.Client{Transport: tr}
	c, err := New("http://weir.test", o)
	if err != nil {
		t.Fatal(err)
	}
	c.random = func() float64 { return 0 }
	return c, tr
}

func TestRetries(t *testing.T) {
	type reply struct {
		status int // 0: the connection is lost
		after  string
		body   string
	}
	busy := func(after string) reply {
		return reply{503, after, `{"status":503,"code":"overloaded","detail":"too many"}`}
	}
	lost := reply{}
	good := reply{200, "", `{"hits":7}`}
	bad := reply{400, "", `{"code":"invalid_key","detail":"no"}`}
	for _, test := range []struct {
		name    string
		retries int
		answers []reply
		pauses  string
		err     string
	}{
		{"at once", 0, []reply{good}, "[0s]", ""},
		{"busy", 0, []reply{busy(""), busy(""), good}, "[0s 100ms 300ms]", ""},
		{"lost", 0, []reply{lost, good}, "[0s 100ms]", ""},
		{"server asks for more", 0, []reply{busy("2"), good}, "[0s 2s]", ""},
		{"server asks for too much", 0, []reply{busy("3600"), good}, "[0s 5s]", ""},
		{"final", 0, []reply{bad}, "[0s]", "no (invalid_key)"},
		{"given up", 2, []reply{busy(""), lost, busy("")}, "[0s 100ms 300ms]", "too many (overloaded) (tried 3 times)"},
		{"never", -1, []reply{busy("")}, "[0s]", "too many (overloaded)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, tr := newTest(t, func(attempt int, _ *http.Request) (*http.Response, error) {
					r := test.answers[attempt-1]
					if r.status == 0 {
						return nil, io.ErrUnexpectedEOF
					}
					h := http.Header{"Content-Type": {"application/problem+json"}}
					if r.after != "" {
						h.Set("Retry-After", r.after)
					}
					return respond(r.status, h, r.body), nil
				}, Options{Retries: test.retries})
				stats, err := c.Stats(t.Context())
				if test.err == "" && (err != nil || stats.Hits != 7) || test.err != "" && (err == nil || err.Error() != test.err) {
					t.Errorf("got %+v, %v; want %q", stats, err, test.err)
				}
				if got := fmt.Sprint(tr.at); got != test.pauses {
					t.Errorf("attempts at %s, want %s", got, test.pauses)
				}
			})
		})
	}
}

func TestPauseIsRandomAndBounded(t *testing.T) {
	c, err := New("weir.test:8080", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for attempt := range 100 {
		full := min(5*time.Second, 100*time.Millisecond<<min(attempt, 20))
		if d := c.pause(attempt, nil); d < full/2 || d > full {
			t.Errorf("attempt %d: a pause of %v, want %v to %v", attempt, d, full/2, full)
		}
	}
}

func TestContextEndsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c, _ := newTest(t, func(int, *http.Request) (*http.Response, error) { return nil, io.EOF }, Options{Retries: 1000})
		_, err := c.Stats(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// Many hits leave in several bodies, and the receipt speaks of all of them.
func TestSendCuts(t *testing.T) {
	hits := make([]Hit, maxLines+10)
	for i := range hits {
		hits[i] = Hit{Key: fmt.Sprintf("key %d \"\xff", i), N: uint64(i % 3), At: time.Unix(int64(i), 500_000_000)}
	}
	var lines []string
	c, tr := newTest(t, func(_ int, r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
		lines = append(lines, got...)
		return respond(200, nil, fmt.Sprintf(`{"counted":%d,"late":1,"rejected_lines":1,"rejected":[{"line":2,"code":"x","message":"y"}]}`, len(got))), nil
	}, Options{})
	r, err := c.Send(t.Context(), hits)
	if err != nil {
		t.Fatal(err)
	}
	if tr.attempts != 2 || len(lines) != len(hits) || r.Counted != uint64(len(hits)) || r.Late != 2 || r.Rejected != 2 || r.Reasons[1].Line != maxLines+2 {
		t.Errorf("%d requests, %d lines, receipt %+v", tr.attempts, len(lines), r)
	}
	for i, want := range []string{
		`{"key":"key 0 \"\ufffd","at":0.5}`, `{"key":"key 1 \"\ufffd","at":1.5}`, `{"key":"key 2 \"\ufffd","n":2,"at":2.5}`,
	} {
		if lines[i] != want {
			t.Errorf("line %d is %s, want %s", i, lines[i], want)
		}
	}
}

func TestNothingCountedHasReceipt(t *testing.T) {
	c, _ := newTest(t, func(int, *http.Request) (*http.Response, error) {
		return respond(422, http.Header{"Content-Type": {"application/problem+json"}},
			`{"status":422,"code":"too_late","detail":"all too late","counted":0,"too_late":9,"rejected":[]}`), nil
	}, Options{})
	r, err := c.Send(t.Context(), []Hit{{Key: "a"}})
	var refused *Error
	if !errors.As(err, &refused) || !refused.NothingCounted() || refused.Status != 422 || r.TooLate != 9 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// A receipt has a list of reasons in JSON, also when it is empty.
func TestEmptyReasons(t *testing.T) {
	c, _ := newTest(t, func(int, *http.Request) (*http.Response, error) {
		return respond(200, nil, `{"counted":1,"rejected":[]}`), nil
	}, Options{})
	receipt, err := c.Send(t.Context(), []Hit{{Key: "a"}})
	text, jsonErr := json.Marshal(receipt)
	if err != nil || jsonErr != nil || !strings.Contains(string(text), `"rejected":[]`) {
		t.Errorf("%v, %v, %s", err, jsonErr, text)
	}
}

// Hits after a request of which nothing was counted are sent anyway.
func TestNothingCountedGoesOn(t *testing.T) {
	c, tr := newTest(t, func(attempt int, _ *http.Request) (*http.Response, error) {
		if attempt == 1 {
			return respond(400, http.Header{"Content-Type": {"application/problem+json"}},
				`{"status":400,"code":"too_late","detail":"all too late","counted":0,"too_late":50000,"rejected":[]}`), nil
		}
		return respond(200, nil, `{"counted":10,"rejected":[]}`), nil
	}, Options{Retries: -1})
	receipt, err := c.Send(t.Context(), slices.Repeat([]Hit{{Key: "a"}}, maxLines+10))
	var refused *Error
	if !errors.As(err, &refused) || !refused.NothingCounted() || receipt.Counted != 10 || receipt.TooLate != 50_000 || tr.attempts != 2 {
		t.Errorf("got %+v, %v after %d attempts", receipt, err, tr.attempts)
	}
}

func TestStrangeAnswers(t *testing.T) {
	for _, test := range []struct {
		response *http.Response
		want     string
	}{
		{respond(200, nil, "<html>"), "not that of a Weir server"},
		{respond(404, http.Header{"Content-Type": {"text/html"}}, "<html>"), "the server answered 404: not found"},
		{respond(500, http.Header{"Content-Type": {"application/problem+json"}}, "{"), "the server answered 500: internal server error"},
		{&http.Response{StatusCode: 200, Body: io.NopCloser(bytes.NewReader(make([]byte, maxAnswer+1)))}, "larger than 64 MiB"},
	} {
		c, _ := newTest(t, func(int, *http.Request) (*http.Response, error) { return test.response, nil }, Options{Retries: -1})
		if _, err := c.Stats(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}

func TestNew(t *testing.T) {
	for _, address := range []string{"http://127.0.0.1:8080", "127.0.0.1:8080", "https://weir.example/prefix/", "localhost:1"} {
		if _, err := New(address, Options{}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"", "ftp://x", "http://", "http://x?y", "http://a b"} {
		if _, err := New(address, Options{}); err == nil || !strings.Contains(err.Error(), "is not the address of a server") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := New("x", Options{Compression: "br"}); err == nil {
		t.Error("br is not a compression")
	}
}
