package middleware

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir"
)

// clock is the time of an engine, that moves when a test says so.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_700_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newEngine(t testing.TB, c *clock) *weir.Engine {
	t.Helper()
	e, err := weir.New(weir.Config{Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func newLimit(t testing.TB, e *weir.Engine, name string, n uint64, per time.Duration) *weir.KeyedLimit {
	t.Helper()
	l, err := e.Limit(name, weir.Limit{N: n, Per: per})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newMiddleware(t testing.TB, c Config) *Middleware {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var byAddress = ByAddress(AddressOptions{})

// handled answers 200 and the times it was called.
func handled() (http.Handler, func() int) {
	var mu sync.Mutex
	calls := 0
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			fmt.Fprint(w, calls)
		}), func() int {
			mu.Lock()
			defer mu.Unlock()
			return calls
		}
}

func ask(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// The life of a limit as a client sees it.
func TestLimit(t *testing.T) {
	c := newClock()
	e := newEngine(t, c)
	next, calls := handled()
	h := newMiddleware(t, Config{
		Decider: Limits(e, newLimit(t, e, "client", 2, time.Minute)),
		Rules:   []Rule{{Limit: "client", Key: byAddress}},
	}).Wrap(next)
	for i, step := range []struct {
		after           time.Duration
		status          int
		limit, retry    string
		allowedHitherto int
	}{
		{0, 200, `"client";r=1;t=60`, "", 1},
		{10 * time.Second, 200, `"client";r=0;t=60`, "", 2},
		{20 * time.Second, 429, `"client";r=0;t=30`, "30", 2},
		{29500 * time.Millisecond, 429, `"client";r=0;t=1`, "1", 2},
		{500 * time.Millisecond, 200, `"client";r=0;t=60`, "", 3},
		{time.Hour, 200, `"client";r=1;t=60`, "", 4},
	} {
		c.add(step.after)
		answer := ask(h, request())
		header := answer.Header
		if answer.StatusCode != step.status || header.Get("RateLimit") != step.limit || header.Get("Retry-After") != step.retry || calls() != step.allowedHitherto {
			t.Errorf("step %d: %d %v after %d", i, answer.StatusCode, header, calls())
		}
		if got := header.Get("RateLimit-Policy"); got != `"client";q=2;w=60` {
			t.Errorf("step %d: policy %s", i, got)
		}
	}
	other := request()
	other.RemoteAddr = "203.0.113.8:1"
	if answer := ask(h, other); answer.StatusCode != 200 {
		t.Errorf("another client: %d", answer.StatusCode)
	}
}

func TestDeniedDocument(t *testing.T) {
	c := newClock()
	e := newEngine(t, c)
	next, _ := handled()
	h := newMiddleware(t, Config{
		Decider: Limits(e, newLimit(t, e, "client", 1, time.Minute), newLimit(t, e, "all", 9, time.Hour)),
		Rules:   []Rule{{Limit: "client", Key: byAddress, Cost: size}, {Limit: "all", Key: byAddress}},
	}).Wrap(next)
	ask(h, request())
	for cost, want := range map[string]string{
		"1": `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,"detail":"Try again in 60 s.","violated-policies":["client"]}` + "\n",
		"2": `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,"detail":"The request takes more than its limit lets through at once: ask for less.","violated-policies":["client"]}` + "\n",
	} {
		answer := ask(h, request("Size", cost))
		body, _ := io.ReadAll(answer.Body)
		if string(body) != want || !json.Valid(body) || answer.Header.Get("Content-Type") != "application/problem+json" || answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v %s", answer.Header, body)
		}
		if never := cost == "2"; never == (answer.Header.Get("Retry-After") != "") {
			t.Errorf("cost %s: Retry-After %q", cost, answer.Header.Get("Retry-After"))
		}
	}
}

// size is a cost that the request says.
func size(r *http.Request) (n uint64) {
	if _, err := fmt.Sscan(r.Header.Get("Size"), &n); err != nil {
		return 1
	}
	return n
}

// Several limits take all or none.
func TestAllOrNone(t *testing.T) {
	c := newClock()
	e := newEngine(t, c)
	client, tenant := newLimit(t, e, "client", 5, time.Minute), newLimit(t, e, "tenant", 2, time.Minute)
	next, calls := handled()
	m := newMiddleware(t, Config{
		Decider: Limits(e, client, tenant),
		Rules: []Rule{
			{Limit: "client", Key: byAddress, Prefix: "shop/"},
			{Limit: "tenant", Key: ByPlainHeader("X-Tenant"), Optional: true},
		},
	})
	h := m.Wrap(next)
	for range 10 {
		ask(h, request("X-Tenant", "acme"))
	}
	left, err := client.Peek("shop/address:203.0.113.7", 1)
	if err != nil || left.Remaining != 3 || calls() != 2 {
		t.Errorf("%d passed, %+v %v", calls(), left, err)
	}
	answer := ask(h, request("X-Tenant", "acme"))
	if got := answer.Header.Get("RateLimit"); got != `"client";r=3;t=60, "tenant";r=0;t=60` {
		t.Errorf("limits %s", got)
	}
	for range 10 { // without the optional header
		ask(h, request())
	}
	if got := m.Stats(); got != (Stats{Allowed: 5, Denied: 16}) || calls() != 5 {
		t.Errorf("%+v, %d calls", got, calls())
	}
}

// Each route has its own limits, around it; those of both are reported.
func TestRoutes(t *testing.T) {
	c := newClock()
	e := newEngine(t, c)
	decider := Limits(e, newLimit(t, e, "site", 10, time.Minute), newLimit(t, e, "login", 1, time.Minute))
	site := newMiddleware(t, Config{Decider: decider, Rules: []Rule{{Limit: "site", Key: byAddress}}})
	login := newMiddleware(t, Config{Decider: decider, Rules: []Rule{{Limit: "login", Key: ByFunc(func(r *http.Request) (string, bool) {
		return r.PathValue("user"), true
	})}}})
	mux := http.NewServeMux()
	next, _ := handled()
	mux.Handle("POST /login/{user}", login.Wrap(next))
	mux.Handle("GET /", next)
	server := httptest.NewServer(site.Wrap(mux))
	defer server.Close()
	var got []string
	for _, to := range []string{"POST /login/bob", "POST /login/bob", "POST /login/eve", "GET /", "GET /"} {
		method, path, _ := strings.Cut(to, " ")
		r, err := http.NewRequest(method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		got = append(got, fmt.Sprint(answer.StatusCode, " ", strings.Join(answer.Header.Values("RateLimit"), ", ")))
	}
	want := []string{
		`200 "site";r=9;t=60, "login";r=0;t=60`, `429 "site";r=8;t=60, "login";r=0;t=60`, `200 "site";r=7;t=60, "login";r=0;t=60`,
		`200 "site";r=6;t=60`, `200 "site";r=5;t=60`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCostSkipAndKeys(t *testing.T) {
	c := newClock()
	e := newEngine(t, c)
	client := newLimit(t, e, "client", 5, time.Minute)
	next, _ := handled()
	m := newMiddleware(t, Config{
		Decider: Limits(e, client),
		Rules:   []Rule{{Limit: "client", Key: ByPlainHeader("X-Tenant"), Cost: size}},
		Skip:    func(r *http.Request) bool { return r.Method == http.MethodOptions },
		OnError: func(_ *http.Request, err error) {
			if !errors.Is(err, ErrNoKey) {
				t.Errorf("reported %v", err)
			}
		},
	})
	h := m.Wrap(next)
	options := request()
	options.Method = http.MethodOptions
	for _, step := range []struct {
		r      *http.Request
		status int
		limit  string
	}{
		{request("X-Tenant", "acme", "Size", "3"), 200, `"client";r=2;t=60`},
		{request("X-Tenant", "acme", "Size", "3"), 429, `"client";r=2;t=60`},
		{request("X-Tenant", "acme", "Size", "0"), 200, ""},
		{request("X-Tenant", "acme", "Size", "2"), 200, `"client";r=0;t=60`},
		{request("X-Tenant", "acme", "Size", "18446744073709551615"), 429, `"client";r=0;t=60`},
		{options, 200, ""},
		{request(), 400, ""},
		{request("X-Tenant", strings.Repeat("a", 100_000)), 200, `"client";r=4;t=60`},
	} {
		answer := ask(h, step.r)
		if answer.StatusCode != step.status || answer.Header.Get("RateLimit") != step.limit {
			t.Errorf("%v: %d %v", step.r.Header, answer.StatusCode, answer.Header)
		}
	}
	if got := m.Stats(); got != (Stats{Allowed: 3, Denied: 2, Skipped: 2, Refused: 1}) {
		t.Errorf("%+v", got)
	}
}

// A structured field must not name one limit twice: keys are distinguished, not shown.
func TestTwoKeysOfOneLimitAreToldApart(t *testing.T) {
	e := newEngine(t, newClock())
	next, _ := handled()
	h := newMiddleware(t, Config{
		Decider: Limits(e, newLimit(t, e, "client", 5, time.Minute)),
		Rules:   []Rule{{Limit: "client", Key: byAddress}, {Limit: "client", Key: ByPlainHeader("X-Tenant")}},
	}).Wrap(next)
	answer := ask(h, request("X-Tenant", "acme"))
	members := strings.Split(answer.Header.Get("RateLimit"), ", ")
	if len(members) != 2 || members[0] == members[1] {
		t.Fatalf("RateLimit: %q", members)
	}
	for _, m := range members {
		if !strings.HasPrefix(m, `"client";r=4;t=60;pk=:`) || strings.Contains(m, base64.StdEncoding.EncodeToString([]byte("header:x-tenant:acme"))) {
			t.Errorf("RateLimit: %s", m)
		}
	}
}

func TestOwnAnswers(t *testing.T) {
	c := newClock()
	e := newEngine(t, c)
	next, _ := handled()
	h := newMiddleware(t, Config{
		Decider: Limits(e, newLimit(t, e, "client", 1, time.Minute)),
		Rules:   []Rule{{Limit: "client", Key: ByHeader("X-Api-Key")}},
		Denied: func(w http.ResponseWriter, r *http.Request, d *Decision) {
			http.Error(w, fmt.Sprint(r.URL.Path, d.RetryAfter, d.Results[0].Limit), http.StatusTeapot)
		},
		Refused: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusUnauthorized)
		},
		OnError:    func(*http.Request, error) {},
		HideFields: true,
	}).Wrap(next)
	ask(h, request("X-Api-Key", "a"))
	answer := ask(h, request("X-Api-Key", "a"))
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusTeapot || string(body) != "/1m0sclient\n" {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	if _, reported := answer.Header["Ratelimit"]; reported || answer.Header.Get("Retry-After") != "60" {
		t.Errorf("header %v", answer.Header)
	}
	if answer = ask(h, request()); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("no key: %d", answer.StatusCode)
	}
}

func TestConfigIsChecked(t *testing.T) {
	e := newEngine(t, newClock())
	decider := Limits(e, newLimit(t, e, "client", 1, time.Minute), newLimit(t, e, "all", 1, time.Minute))
	rule := Rule{Limit: "client", Key: byAddress}
	for want, c := range map[string]Config{
		"no Decider":          {Rules: []Rule{rule}},
		"0 rules":             {Decider: decider},
		"65 rules":            {Decider: decider, Rules: make([]Rule, 65)},
		"fail 2":              {Decider: decider, Rules: []Rule{rule}, Fail: 2},
		"there are all, clie": {Decider: decider, Rules: []Rule{{Limit: "cliemt", Key: byAddress}}},
		"rule 2: no key":      {Decider: decider, Rules: []Rule{rule, {Limit: "client"}}},
		"prefix of 129":       {Decider: decider, Rules: []Rule{{Limit: "client", Key: byAddress, Prefix: strings.Repeat("p", 129)}}},
		"129 bits":            {Decider: decider, Rules: []Rule{{Limit: "client", Key: FirstOf(ByCookie("a"), ByAddress(AddressOptions{IPv6Bits: 129}))}}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one of %q", err, want)
		}
	}
}

// A handler has all that the server's ResponseWriter can do.
func TestWriterIsUntouched(t *testing.T) {
	c := newClock()
	e := newEngine(t, c)
	m := newMiddleware(t, Config{Decider: Limits(e, newLimit(t, e, "client", 9, time.Minute)), Rules: []Rule{{Limit: "client", Key: byAddress}}})
	w := &struct{ *httptest.ResponseRecorder }{httptest.NewRecorder()}
	m.Wrap(http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
		if got != http.ResponseWriter(w) {
			t.Errorf("a %T", got)
		}
	})).ServeHTTP(w, request())

	server := httptest.NewServer(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(buffered, "HTTP/1.1 204 Taken over\r\n\r\n")
		buffered.Flush()
	})))
	defer server.Close()
	answer, err := server.Client().Get(server.URL)
	if err != nil || answer.StatusCode != 204 {
		t.Errorf("%v %v", answer, err)
	}
}
