package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/server/httpapi"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/middleware"
	"github.com/weir-counter/weir/middleware/remote"
	"github.com/weir-counter/weir/policy"
)

const policies = `limits:
  - name: client
    keys: "address:*"
    limit: 3
    per: 1m
  - name: login
    keys: "login:{user}"
    limit: 2
    per: 1h
  - name: trial
    keys: "address:*"
    limit: 1
    per: 1h
    mode: shadow
  - name: fails
    keys: "fails:*"
    limit: 2
    per: 1h
    count_if: status >= 400
`

// weirServer is a Weir that can be killed and comes back at its address, without its
// states.
type weirServer struct {
	t    *testing.T
	addr string
	stop func()
}

func newWeirServer(t *testing.T) *weirServer {
	s := &weirServer{t: t, addr: "127.0.0.1:0"}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

// newHandler returns the HTTP listener of an engine. policies may be nil.
func newHandler(e *engine.Engine, policies *admit.Live) (http.Handler, error) {
	to, err := service.New(service.Backend{Engine: e, Policies: policies}, service.Config{})
	if err != nil {
		return nil, err
	}
	listener, err := httpapi.New(to, httpapi.Config{})
	if err != nil {
		return nil, err
	}
	return listener.Handler(), nil
}

func (s *weirServer) start() {
	s.t.Helper()
	e, err := engine.New(engine.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	set, err := policy.Parse("policies.yaml", []byte(policies))
	if err != nil {
		s.t.Fatal(err)
	}
	live, err := admit.NewLive(e, set)
	if err != nil {
		s.t.Fatal(err)
	}
	api, err := newHandler(e, live)
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = l.Addr().String()
	h := &http.Server{Handler: api}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.Serve(l)
	}()
	s.stop = sync.OnceFunc(func() {
		h.Close()
		<-ended
		e.Close()
	})
}

// site is a web server behind a Middleware that asks a Weir at addr.
type site struct {
	*httptest.Server
	m      *middleware.Middleware
	errors chan error
	weirs  *http.Transport
}

func newSite(t *testing.T, addr string, o remote.Options, c middleware.Config) *site {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	weirs, err := client.New(addr, client.Options{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Decider, err = remote.New(weirs, o); err != nil {
		t.Fatal(err)
	}
	s := &site{errors: make(chan error, 10_000), weirs: transport}
	c.OnError = func(_ *http.Request, err error) { s.errors <- err }
	if s.m, err = middleware.New(c); err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(s.m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })))
	t.Cleanup(s.Close)
	return s
}

func (s *site) get(t *testing.T, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer
}

var byAddress = middleware.ByAddress(middleware.AddressOptions{})

// patient is a timeout that a busy machine does not reach.
const patient = time.Minute

func TestPoliciesOfTheServer(t *testing.T) {
	s := newSite(t, newWeirServer(t).addr, remote.Options{Timeout: patient}, middleware.Config{
		Rules: []middleware.Rule{{Key: byAddress}, {Limit: "login", Prefix: "login:", Key: user, Optional: true, Cost: size}},
	})
	for i, step := range []struct {
		header []string
		status int
		policy string
		rate   string // to its first semicolon of each
	}{
		{[]string{"User", "bob"}, 200, `"client";q=3;w=60, "login";q=2;w=3600`, `"client";r=2;t=60, "login";r=1;t=3600`},
		{[]string{"User", "bob"}, 200, `"client";q=3;w=60, "login";q=2;w=3600`, `"client";r=1;t=60, "login";r=0;t=3600`},
		{[]string{"User", "bob"}, 429, `"client";q=3;w=60, "login";q=2;w=3600`, `"client";r=1;t=60, "login";r=0;t=3600`},
		{[]string{"User", "eve", "Size", "3"}, 429, "", ""}, // never
		{nil, 200, `"client";q=3;w=60`, `"client";r=0;t=60`},
		{nil, 429, `"client";q=3;w=60`, `"client";r=0;t=60`},
	} {
		answer := s.get(t, step.header...)
		if got := answer.Header.Get("RateLimit-Policy"); answer.StatusCode != step.status || got != step.policy {
			t.Errorf("step %d: %d %q", i, answer.StatusCode, got)
		}
		if got := withoutTimes(answer.Header.Get("RateLimit")); got != withoutTimes(step.rate) {
			t.Errorf("step %d: limits %s", i, got)
		}
		if waits := step.status == 429 && step.policy != ""; waits != (answer.Header.Get("Retry-After") != "") {
			t.Errorf("step %d: Retry-After %q", i, answer.Header.Get("Retry-After"))
		}
	}
	// A client that makes its key fit no policy is refused, not let through.
	if answer := s.get(t, "User", "a:b"); answer.StatusCode != 503 {
		t.Errorf("a key that the policy is not for: %d", answer.StatusCode)
	}
	if got := s.m.Stats(); got != (middleware.Stats{Allowed: 3, Denied: 3, Refused: 1}) {
		t.Errorf("%+v", got)
	}
}

// withoutTimes leaves out what depends on how fast the test runs.
func withoutTimes(list string) string {
	var kept []string
	for member := range strings.SplitSeq(list, ", ") {
		short, _, _ := strings.Cut(member, ";t=")
		kept = append(kept, short)
	}
	return strings.Join(kept, ", ")
}

var user = middleware.ByFunc(func(r *http.Request) (string, bool) { return r.Header.Get("User"), true })

func size(r *http.Request) (n uint64) {
	if _, err := fmt.Sscan(r.Header.Get("Size"), &n); err != nil {
		return 1
	}
	return n
}

// Two sites bring one limit along, and count together.
func TestLimitsOfTheRequest(t *testing.T) {
	addr := newWeirServer(t).addr
	o := remote.Options{Timeout: patient, Limits: map[string]weir.Limit{"shared": {N: 10, Per: time.Minute, Burst: 5}}}
	c := middleware.Config{Rules: []middleware.Rule{{Limit: "shared", Key: byAddress}}}
	sites := []*site{newSite(t, addr, o, c), newSite(t, addr, o, c)}
	passed := 0
	for i := range 10 {
		answer := sites[i%2].get(t)
		if answer.StatusCode == 200 {
			passed++
		}
		if got := answer.Header.Get("RateLimit-Policy"); got != `"shared";q=10;w=60;weir-burst=5` {
			t.Errorf("policy %s", got)
		}
	}
	if passed != 5 {
		t.Errorf("%d passed", passed)
	}
}

// Weir is killed, and comes back: open lets all through meanwhile, closed none. Nothing
// is let through by a limit that is there.
func TestKilledAndBack(t *testing.T) {
	for name, fail := range map[string]middleware.Fail{"open": middleware.FailOpen, "closed": middleware.FailClosed} {
		t.Run(name, func(t *testing.T) {
			w := newWeirServer(t)
			const pause = 20 * time.Millisecond
			s := newSite(t, w.addr, remote.Options{Timeout: patient, Pause: pause}, middleware.Config{
				Fail: fail, Rules: []middleware.Rule{{Key: byAddress}},
			})
			during := 200
			if fail == middleware.FailClosed {
				during = 503
			}
			for life := range 3 {
				for i := range 5 {
					if got, want := s.get(t).StatusCode, map[bool]int{true: 200, false: 429}[i < 3]; got != want {
						t.Fatalf("life %d, request %d: %d, want %d", life, i, got, want)
					}
				}
				w.stop()
				s.weirs.CloseIdleConnections()
				for range 20 {
					if got := s.get(t).StatusCode; got != during {
						t.Fatalf("killed: %d", got)
					}
				}
				if err := <-s.errors; !errors.Is(err, middleware.ErrUnavailable) {
					t.Fatalf("reported %v", err)
				}
				w.start()
				before := s.m.Stats()
				for s.m.Stats().Allowed == before.Allowed { // until the pause is over
					s.get(t)
				}
				w.stop() // what this life has taken is not known: another begins
				s.weirs.CloseIdleConnections()
				w.start()
			}
			if got := s.m.Stats(); (got.Refused == 0) != (fail == middleware.FailOpen) || got.Refused+got.FailedOpen < 60 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A Weir that hangs costs each of the first requests the timeout, and later ones nothing
// but for one in each pause.
func TestHangingWeir(t *testing.T) {
	var asked atomic.Int64
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = r.Body.Read(make([]byte, 10_000)) // the end of the body tells net/http to watch the connection
		<-r.Context().Done()
	}))
	defer hangs.Close()
	s := newSite(t, hangs.URL, remote.Options{Timeout: 50 * time.Millisecond, Pause: time.Hour}, middleware.Config{Rules: []middleware.Rule{{Key: byAddress}}})
	for range 200 {
		if got := s.get(t).StatusCode; got != 200 {
			t.Fatalf("status %d", got)
		}
	}
	if got := asked.Load(); got != 3 {
		t.Errorf("%d requests waited", got)
	}
	first := <-s.errors
	if !errors.Is(first, context.DeadlineExceeded) || !errors.Is(first, middleware.ErrUnavailable) {
		t.Errorf("reported %v", first)
	}
	if got := s.m.Stats(); got != (middleware.Stats{FailedOpen: 200}) {
		t.Errorf("%+v", got)
	}
}

// A client that goes away before the decision gets nothing done without a limit, and is
// no reason for a pause.
func TestClientGoesAway(t *testing.T) {
	entered := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = r.Body.Read(make([]byte, 10_000))
		entered <- struct{}{}
		<-r.Context().Done()
	}))
	defer hangs.Close()
	c, err := client.New(hangs.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := remote.New(c, remote.Options{Timeout: time.Hour, Pause: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	m, err := middleware.New(middleware.Config{Decider: d, Rules: []middleware.Rule{{Key: byAddress}}, OnError: func(_ *http.Request, err error) { t.Errorf("reported %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("let through") }))
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		}()
		select {
		case <-entered:
		case <-done:
			t.Error("Weir was not asked")
		}
		cancel()
		<-done
	}
	if got := m.Stats(); got != (middleware.Stats{Gone: 10}) {
		t.Errorf("%+v", got)
	}
}

// What a wrong answer means.
func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		name        string
		status      int
		body        string
		unavailable bool
		pauses      bool
		never       bool
		slip        bool
	}{
		{"memory of limits is full", 503, `{"code":"overloaded","field":"limit"}`, false, false, false, false},
		{"too much to do", 503, `{"code":"overloaded"}`, true, true, false, false},
		{"it stops", 503, `{"code":"stopping"}`, true, true, false, false},
		{"its own fault", 500, `{"code":"internal"}`, true, true, false, false},
		{"no policy of that name", 404, `{"code":"unknown_limit","field":"limit"}`, false, false, false, true},
		{"too old for limits", 404, `{"code":"not_found"}`, false, false, false, true},
		{"something else's 404", 404, `{}`, true, true, false, false},
		{"a key of a client", 400, `{"code":"invalid_key","field":"key"}`, false, false, false, false},
		{"too many policies", 400, `{"code":"invalid_count","field":"checks"}`, false, false, false, false},
		{"more than the burst", 400, `{"code":"invalid_count","field":"n"}`, false, false, true, false},
		{"any other fault of the request", 413, `{"code":"body_too_large"}`, false, false, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			}))
			defer answers.Close()
			c, err := client.New(answers.URL, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d, err := remote.New(c, remote.Options{Timeout: patient, Pause: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				var got middleware.Decision
				err := d.Decide(t.Context(), []middleware.Check{{Limit: "x", Key: "k", N: 1}}, &got)
				if (err == nil) != test.never || got.Never != test.never || got.Allowed || errors.Is(err, middleware.ErrUnavailable) != test.unavailable || errors.Is(err, middleware.ErrMisconfigured) != test.slip {
					t.Errorf("%+v %v", got, err)
				}
			}
			if (asked == 3) != test.pauses || !test.pauses && asked != 10 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

// A mistyped name lifts no limit: requests are refused, and the log says which name.
func TestMistypedPolicy(t *testing.T) {
	s := newSite(t, newWeirServer(t).addr, remote.Options{Timeout: patient}, middleware.Config{Rules: []middleware.Rule{{Limit: "clint", Key: byAddress}}})
	for range 5 {
		if got := s.get(t).StatusCode; got != 503 {
			t.Errorf("status %d", got)
		}
	}
	if err := <-s.errors; !errors.Is(err, middleware.ErrMisconfigured) || !strings.Contains(err.Error(), `no limit "clint", did you mean client?`) {
		t.Errorf("reported %v", err)
	}
	if got := s.m.Stats(); got != (middleware.Stats{Misconfigured: 5}) {
		t.Errorf("%+v", got)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	c, err := client.New("127.0.0.1:1", client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]remote.Options{
		"timeout -1ns": {Timeout: -1}, "pause -1ns": {Pause: -1},
		`"a": limit: n of 0`: {Limits: map[string]weir.Limit{"a": {Per: time.Second}}},
		"no name":            {Limits: map[string]weir.Limit{"": {N: 1, Per: time.Second}}},
	} {
		if _, err := remote.New(c, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one of %q", err, want)
		}
	}
	if _, err := remote.New(nil, remote.Options{}); err == nil {
		t.Error("no client: no error")
	}
}

// With Outcomes a server's policy counts the answers that its count_if is for.
func TestRemoteOutcomes(t *testing.T) {
	s := newWeirServer(t)
	c, err := client.New("http://"+s.addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	decider, err := remote.New(c, remote.Options{Outcomes: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var failed atomic.Uint64
	m, err := middleware.New(middleware.Config{
		Decider: decider, Fail: middleware.FailClosed,
		Rules:   []middleware.Rule{{Key: middleware.ByFunc(func(r *http.Request) (string, bool) { return r.URL.Query().Get("key"), true })}},
		OnError: func(*http.Request, error) { failed.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("bad") {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	get := func(path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	remaining := func(want uint64) {
		t.Helper()
		for until := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Millisecond) {
			d, err := c.Peek(t.Context(), client.Check{Key: "fails:bob", N: 1})
			if err == nil && d.Limits[0].Remaining == want {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("%+v, %v, want %d", d, err, want)
			}
		}
	}
	for range 10 {
		if got := get("/?key=fails:bob"); got != http.StatusOK {
			t.Fatalf("a success is %d", got)
		}
		remaining(2)
	}
	get("/?key=fails:bob&bad")
	remaining(1)
	get("/?key=fails:bob&bad")
	remaining(0)
	if got := get("/?key=fails:bob"); got != http.StatusTooManyRequests {
		t.Errorf("%d after as many failures as may be", got)
	}
	if got := get("/?key=none"); got != http.StatusOK {
		t.Errorf("%d of a key without a policy", got)
	}
	s.stop()
	if got := get("/?key=fails:ann"); got != http.StatusServiceUnavailable || failed.Load() != 1 {
		t.Errorf("%d without a server, %d failed", got, failed.Load())
	}
}
