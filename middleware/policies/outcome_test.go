package policies_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/middleware"
	"github.com/weir-counter/weir/middleware/policies"
)

const outcomes = `limits:
  - {name: failed, keys: "user:{user}", limit: 3, per: 1m, count_if: status >= 400}
  - {name: all, keys: "user:{user}", limit: 20, per: 1m}
  - {name: other, keys: "other:*", limit: 1, per: 1m}
`

// outcomeServer answers with the status that a request asks for, behind policies.
func outcomeServer(t *testing.T, handler http.HandlerFunc) (get func(path string) int) {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	engine, err := weir.New(weir.Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	decider, err := policies.New(engine, parse(t, outcomes))
	if err != nil {
		t.Fatal(err)
	}
	m, err := middleware.New(middleware.Config{
		Decider: decider, Fail: middleware.FailClosed,
		Rules:   []middleware.Rule{{Key: middleware.ByFunc(func(r *http.Request) (string, bool) { return r.URL.Query().Get("key"), true })}},
		OnError: func(_ *http.Request, err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(m.Wrap(handler))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	s.Client().Transport.(*http.Transport).DisableKeepAlives = true // else it asks again after a panic
	t.Cleanup(s.Close)
	return func(path string) int {
		r, err := s.Client().Get(s.URL + path)
		if err != nil {
			return 0 // the handler panicked
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode
	}
}

func TestOutcomes(t *testing.T) {
	get := outcomeServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch status := r.URL.Query().Get("status"); status {
		case "panic":
			panic(http.ErrAbortHandler)
		case "none":
		case "write":
			_, _ = io.WriteString(w, "ok")
		case "copy":
			_, _ = io.Copy(w, strings.NewReader("ok"))
		case "flush":
			w.(http.Flusher).Flush()
			w.WriteHeader(http.StatusInternalServerError) // too late
		case "hints":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusUnauthorized)
		case "controller":
			if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		case "hijack":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_ = conn.Close()
		default:
			code, _ := strconv.Atoi(status)
			w.WriteHeader(code)
		}
	})
	// left is how many failures a user has, after one request of each.
	passes := func(user string, n int) (passed int) {
		for range n {
			if get("/?key=user:"+user+"&status=401") == http.StatusUnauthorized {
				passed++
			}
		}
		return passed
	}
	for status, failures := range map[string]int{
		"200": 0, "302": 0, "404": 1, "500": 1, "panic": 1, "none": 0, "write": 0, "copy": 0, "flush": 0, "hints": 1, "controller": 0, "hijack": 0,
	} {
		get("/?key=user:" + status + "&status=" + status)
		if got := passes(status, 6); got != 3-failures {
			t.Errorf("after %s, %d failures pass, want %d", status, got, 3-failures)
		}
	}
	// A policy without count_if counts all answers.
	ok := 0
	for range 25 {
		if get("/?key=user:many&status=200") == http.StatusOK {
			ok++
		}
	}
	if ok != 20 {
		t.Errorf("%d successes pass, want 20", ok)
	}
	if a, b := get("/?key=other:x&status=200"), get("/?key=other:x&status=200"); a != 200 || b != 429 {
		t.Errorf("%d, %d where no policy has count_if", a, b)
	}
}

// However many failing requests come at once, no more than the limit are let through.
func TestFailuresAtOnce(t *testing.T) {
	var inside, most atomic.Int64
	release := make(chan struct{})
	get := outcomeServer(t, func(w http.ResponseWriter, _ *http.Request) {
		n := inside.Add(1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		<-release
		inside.Add(-1)
		w.WriteHeader(http.StatusUnauthorized)
	})
	var denied, failed atomic.Int64
	var all sync.WaitGroup
	for range 15 {
		all.Go(func() {
			switch get("/?key=user:bob") {
			case http.StatusTooManyRequests:
				if denied.Add(1) == 12 {
					close(release) // all but three are denied, while the three are at work
				}
			case http.StatusUnauthorized:
				failed.Add(1)
			}
		})
	}
	all.Wait()
	if failed.Load() != 3 || most.Load() != 3 || denied.Load() != 12 {
		t.Errorf("%d failed, %d at once, %d denied", failed.Load(), most.Load(), denied.Load())
	}
}
