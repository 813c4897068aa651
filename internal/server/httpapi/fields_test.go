package httpapi

import (
	"crypto/sha256"
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// The fields are what a reader of structured fields takes them for.
func TestRateLimitFields(t *testing.T) {
	d := &admit.Decision{RetryAfter: 1500 * time.Millisecond, Results: []admit.Result{
		{Name: "a.b_c/D-1", Key: "k", Limit: engine.Limit{N: 3, Per: time.Second, Burst: 1}, Verdict: engine.Verdict{Allowed: true, Remaining: 1, Reset: 1}},
		{Name: "shadow", Key: "k", Mode: policy.Shadow, Limit: engine.Limit{N: 3, Per: time.Second, Burst: 1}},
		{Name: "large", Key: "k\x00é", Limit: engine.Limit{N: 1, Per: time.Second, Burst: limit.MaxBurst / 20_000}, Verdict: engine.Verdict{Reset: 2 * time.Second, RetryAfter: 1500 * time.Millisecond}},
		{Name: "large", Key: "other", Limit: engine.Limit{N: 1_000_000, Per: time.Second, Burst: limit.MaxBurst}, Verdict: engine.Verdict{Allowed: true, Remaining: limit.MaxBurst}},
	}}
	h := http.Header{}
	var list ratelimitfields.List
	setRateLimit(h, d, &list)
	quotas := items(t, h.Get("RateLimit-Policy"))
	states := items(t, h.Get("RateLimit"))
	if len(quotas) != 3 || len(states) != 3 {
		t.Fatalf("%q, %q", h.Get("RateLimit-Policy"), h.Get("RateLimit"))
	}
	for i, want := range []struct {
		name              string
		q, w, burst, r, t int64
		pk                string
	}{
		{"a.b_c/D-1", 3, 1, 1, 1, 1, ""},
		{"large", 1, 1, limit.MaxBurst / 20_000, 0, 2, hashed("k\x00é")},
		{"large", 1_000_000, 1, limit.MaxBurst, limit.MaxBurst, 0, hashed("other")},
	} {
		if quotas[i].Value != want.name || states[i].Value != want.name {
			t.Errorf("%d: names %v and %v, want %s", i, quotas[i].Value, states[i].Value, want.name)
		}
		wantParam(t, quotas[i], "q", want.q)
		wantParam(t, quotas[i], "w", want.w)
		wantParam(t, quotas[i], "weir-burst", want.burst)
		wantParam(t, states[i], "r", want.r)
		wantParam(t, states[i], "t", want.t)
		for _, item := range []httpsfv.Item{quotas[i], states[i]} {
			pk, _ := item.Params.Get("pk")
			if b, _ := pk.([]byte); string(b) != want.pk {
				t.Errorf("%d: pk is %q, want %q", i, b, want.pk)
			}
		}
	}
	h = http.Header{}
	setRateLimit(h, &admit.Decision{Results: d.Results[1:2]}, &list)
	if len(h) > 0 {
		t.Errorf("a limit that denies nobody is shown: %v", h)
	}
}

// hashed is what tells keys apart: 72 bits of their SHA-256.
func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return string(sum[:9])
}

func items(t *testing.T, field string) (all []httpsfv.Item) {
	t.Helper()
	list, err := httpsfv.UnmarshalList([]string{field})
	if err != nil {
		t.Fatalf("%q: %v", field, err)
	}
	for _, member := range list {
		all = append(all, member.(httpsfv.Item))
	}
	return all
}

func wantParam(t *testing.T, item httpsfv.Item, name string, want int64) {
	t.Helper()
	if got, _ := item.Params.Get(name); got != want {
		t.Errorf("%v: %s is %v, want %d", item.Value, name, got, want)
	}
}
