package policies_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/middleware"
	"github.com/weir-counter/weir/middleware/policies"
	"github.com/weir-counter/weir/policy"
)

const file = `limits:
  - name: client
    keys: "address:*"
    limit: 2
    per: 1m
  - name: trial
    keys: "address:*"
    limit: 1
    per: 1m
    mode: shadow
  - name: login
    keys: "login:{user}"
    limit: 1
    per: 1h
`

func parse(t *testing.T, text string) *policy.Set {
	t.Helper()
	s, err := policy.Parse("policies.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPolicies(t *testing.T) {
	engine, err := weir.New(weir.Config{Now: func() time.Time { return time.Unix(1_700_000_000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	decider, err := policies.New(engine, parse(t, file))
	if err != nil {
		t.Fatal(err)
	}
	var reported error
	m, err := middleware.New(middleware.Config{
		Decider: decider,
		Rules: []middleware.Rule{
			{Key: middleware.ByAddress(middleware.AddressOptions{})},
			{Limit: "login", Prefix: "login:", Key: middleware.ByFunc(func(r *http.Request) (string, bool) { return r.Header.Get("User"), true }), Optional: true},
		},
		OnError: func(_ *http.Request, err error) { reported = err },
	})
	if err != nil {
		t.Fatal(err)
	}
	h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	get := func(user string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("User", user)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Header().Get("RateLimit")
	}
	for i, step := range []struct {
		user   string
		status int
		limit  string
	}{
		{"bob", 200, `"client";r=1;t=60, "login";r=0;t=3600`},
		{"bob", 429, `"client";r=1;t=60, "login";r=0;t=3600`},
		{"", 200, `"client";r=0;t=60`},
		{"eve", 429, `"client";r=0;t=60, "login";r=1;t=0`},
		{"a:b", 503, ""}, // a key that its policy is not for is not let through
	} {
		if status, limit := get(step.user); status != step.status || limit != step.limit {
			t.Errorf("step %d: %d %s", i, status, limit)
		}
	}
	if err := decider.Replace(parse(t, strings.ReplaceAll(file, "login", "logon"))); err != nil {
		t.Fatal(err)
	}
	if status, _ := get("bob"); status != 503 || !errors.Is(reported, middleware.ErrMisconfigured) {
		t.Errorf("a policy that was taken out: %d, %v", status, reported)
	}
	if got := m.Stats(); got != (middleware.Stats{Allowed: 2, Denied: 2, Refused: 1, Misconfigured: 1}) {
		t.Errorf("%+v", got)
	}
	if n, err := engine.Count("limit:client:allowed", time.Minute); err != nil || n.Estimate != 2 {
		t.Errorf("hits of the policy: %v %v", n, err)
	}
}

func TestUnknownPolicy(t *testing.T) {
	engine, err := weir.New(weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	decider, err := policies.New(engine, parse(t, file))
	if err != nil {
		t.Fatal(err)
	}
	_, err = middleware.New(middleware.Config{
		Decider: decider,
		Rules:   []middleware.Rule{{Limit: "cliemt", Key: middleware.ByAddress(middleware.AddressOptions{})}},
	})
	if err == nil || !strings.Contains(err.Error(), `no policy "cliemt"`) {
		t.Errorf("error %v", err)
	}
}

// A request that waits for its turn goes once its context is done, is denied at once if its turn is after the deadline of that, and
// the next decision has nothing of it.
func TestWaitEndsWithTheContext(t *testing.T) {
	engine, err := weir.New(weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	decider, err := policies.New(engine, parse(t, `limits: [{name: slow, keys: "k:*", limit: 1, per: 10s, wait: 10s}]`))
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, done := context.WithTimeout(t.Context(), time.Second)
	defer done()
	for i, step := range []struct {
		ctx     context.Context
		key     string
		err     error
		allowed bool
	}{{t.Context(), "k:a", nil, true}, {gone, "k:a", context.Canceled, false}, {t.Context(), "k:b", nil, true}, {late, "k:b", nil, false}} {
		var d middleware.Decision
		if err := decider.Decide(step.ctx, []middleware.Check{{Key: step.key, N: 1}}, &d); !errors.Is(err, step.err) || d.Allowed != step.allowed {
			t.Errorf("step %d: allowed %v, %v", i, d.Allowed, err)
		}
	}
}
