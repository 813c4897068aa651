package httpapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
)

const testPolicies = `limits:
  - name: login
    keys: "login:{user}:*"
    by: "login:{user}"
    limit: 2
    per: 1m
    overrides: [{key: "login:admin", limit: 100}]
  - name: login/ip
    keys: "login:{user}:{ip}"
    by: "ip:{ip}"
    limit: 3
    per: 1h
    burst: 1
    order: 5
  - name: trial
    keys: "try:*"
    limit: 1
    per: 10s
    mode: shadow
`

// newLimitAPI is a server with policies, whose limits go by a clock that the test moves.
func newLimitAPI(t *testing.T, policies string) (a *testAPI, forward func(time.Duration)) {
	t.Helper()
	var after atomic.Int64 // ns since start
	e, err := engine.New(engine.Config{Now: func() time.Time { return start.Add(time.Duration(after.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	path := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(path, []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	file, set, err := access.ReadPolicyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	live, err := admit.NewLive(e, set)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := file.Watch(ctx, live, slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(func() {
		cancel()
		ended()
	})
	return serveTestAPI(t, e, options{Backend: service.Backend{Policies: live, PolicyFile: file}}), func(d time.Duration) { after.Add(int64(d)) }
}

func (a *testAPI) allow(body string) reply {
	a.Helper()
	return a.do(http.MethodPost, "/v1/allow", "application/json", body)
}

func TestAllow(t *testing.T) {
	a, forward := newLimitAPI(t, testPolicies)
	for _, step := range []struct {
		name, body string
		after      time.Duration
		status     int
		answer     string // a part of it
		policy     string
		rate       string
		retry      string
	}{
		{"two policies", `{"key":"login:bob:1.1.1.1"}`, 0, 200,
			`{"allowed":true,"limits":[{"name":"login","key":"login:bob","mode":"enforce","allowed":true,"n":1,"limit":2,"per_s":60,"burst":2,"remaining":1,"reset_s":60},` +
				`{"name":"login/ip","key":"ip:1.1.1.1","mode":"enforce","allowed":true,"n":1,"limit":3,"per_s":3600,"burst":1,"remaining":0,"reset_s":1200}]}`,
			`"login";q=2;w=60, "login/ip";q=3;w=3600;weir-burst=1`, `"login";r=1;t=60, "login/ip";r=0;t=1200`, ""},
		{"the second one denies, the first one is not charged", `{"key":"login:bob:1.1.1.1"}`, 500 * time.Millisecond, 429,
			`{"allowed":false,"retry_after_s":1199.5,"limits":[{"name":"login","key":"login:bob","mode":"enforce","allowed":true,"n":1,"limit":2,"per_s":60,"burst":2,"remaining":1,"reset_s":59.5},` +
				`{"name":"login/ip","key":"ip:1.1.1.1","mode":"enforce","allowed":false,"n":1,"limit":3,"per_s":3600,"burst":1,"remaining":0,"retry_after_s":1199.5,"reset_s":1199.5}]}`,
			`"login";q=2;w=60, "login/ip";q=3;w=3600;weir-burst=1`, `"login";r=1;t=60, "login/ip";r=0;t=1200`, "1200"},
		{"one by name", `{"key":"login:bob:x","limit":"login","n":1}`, 0, 200, `{"allowed":true,"limits":[{"name":"login","key":"login:bob","mode":"enforce","allowed":true,"n":1,"limit":2,"per_s":60,"burst":2,"remaining":0,"reset_s":60}]}`,
			`"login";q=2;w=60`, `"login";r=0;t=60`, ""},
		{"ask only", `{"key":"login:bob:x","limit":"login","n":0}`, 0, 200, `{"allowed":true,"limits":[{"name":"login","key":"login:bob","mode":"enforce","allowed":true,"n":0,"limit":2,"per_s":60,"burst":2,"remaining":0,"reset_s":60}]}`,
			`"login";q=2;w=60`, `"login";r=0;t=60`, ""},
		{"peek", `{"key":"login:bob:x","limit":"login","peek":true}`, 0, 429, `{"allowed":false,"retry_after_s":59.5,"limits":[{"name":"login","key":"login:bob","mode":"enforce","allowed":false,"n":1,"limit":2,"per_s":60,"burst":2,"remaining":0,"retry_after_s":59.5,"reset_s":60}]}`,
			`"login";q=2;w=60`, `"login";r=0;t=60`, "60"},
		{"an override", `{"key":"login:admin:x","limit":"login","n":60}`, 0, 200, `{"allowed":true,"limits":[{"name":"login","key":"login:admin","mode":"enforce","allowed":true,"n":60,"limit":100,"per_s":60,"burst":100,"remaining":40,"reset_s":60}]}`,
			`"login";q=100;w=60`, `"login";r=40;t=60`, ""},
		{"unmatched", `{"key":"other"}`, 0, 200, `{"allowed":true,"unmatched":true,"limits":[]}`, "", "", ""},
		{"inline", `{"key":"u","limit":{"n":2,"per":"100ms","burst":1,"algorithm":"gcra"}}`, 0, 200, `{"allowed":true,"limits":[{"name":"inline/gcra/100ms","key":"u","mode":"enforce","allowed":true,"n":1,"limit":2,"per_s":0.1,"burst":1,"remaining":0,"reset_s":0.05}]}`,
			`"inline/gcra/100ms";q=20;w=1;weir-burst=1`, `"inline/gcra/100ms";r=0;t=1`, ""},
		{"inline, an odd period", `{"key":"u","limit":{"name":"odd","n":2,"per":"1.0005"}}`, 0, 200, `"limit":2,"per_s":1.0005,"burst":2,"remaining":1,"reset_s":1.001}]}`,
			`"odd";q=119;w=60;weir-burst=2`, `"odd";r=1;t=2`, ""},
		{"inline denied", `{"key":"u","limit":{"n":2,"per":0.1,"burst":1,"algorithm":"gcra"}}`, 20 * time.Millisecond, 429, `{"allowed":false,"retry_after_s":0.03,"limits":[{"name":"inline/gcra/100ms","key":"u","mode":"enforce","allowed":false,"n":1,"limit":2,"per_s":0.1,"burst":1,"remaining":0,"retry_after_s":0.03,"reset_s":0.03}]}`,
			`"inline/gcra/100ms";q=20;w=1;weir-burst=1`, `"inline/gcra/100ms";r=0;t=1`, "1"},
		{"shadow is not shown in the fields", `{"checks":[{"key":"try:1"},{"key":"try:1","n":1},{"key":"try:2","n":5}]}`, 0, 200,
			`{"allowed":true,"limits":[{"name":"trial","key":"try:1","mode":"shadow","allowed":true,"n":1,"limit":1,"per_s":10,"burst":1,"remaining":0,"reset_s":10},` +
				`{"name":"trial","key":"try:1","mode":"shadow","allowed":false,"never":true,"n":1,"limit":1,"per_s":10,"burst":1,"remaining":1,"reset_s":0},` +
				`{"name":"trial","key":"try:2","mode":"shadow","allowed":false,"never":true,"n":5,"limit":1,"per_s":10,"burst":1,"remaining":1,"reset_s":0}]}`, "", "", ""},
		{"one limit of two keys", `{"checks":[{"key":"login:a:x","limit":"login"},{"key":"login:b:x","limit":"login"}]}`, 0, 200, `"key":"login:b"`,
			`"login";q=2;w=60;pk=:9afB9XxQRC1U:, "login";q=2;w=60;pk=:fPn6LUyvBika:`, `"login";r=1;t=60;pk=:9afB9XxQRC1U:, "login";r=1;t=60;pk=:fPn6LUyvBika:`, ""},
		{"one limit and key twice", `{"checks":[{"key":"login:c:x","limit":"login"},{"key":"login:c:y","limit":"login"}]}`, 0, 200, `"remaining":0`, `"login";q=2;w=60`, `"login";r=0;t=60`, ""},
		{"a key to escape", `{"key":"login:\"\\\u0001\u00e9:x","limit":"login"}`, 0, 200, `"key":"login:\"\\\u0001é"`, `"login";q=2;w=60`, `"login";r=1;t=60`, ""},
	} {
		forward(step.after)
		r := a.allow(step.body)
		if r.status != step.status || !strings.Contains(withoutDenial(r.body), step.answer) {
			t.Errorf("%s: got %d %s\nwant %d %s", step.name, r.status, r.body, step.status, step.answer)
		}
		for field, want := range map[string]string{"RateLimit-Policy": step.policy, "RateLimit": step.rate, "Retry-After": step.retry, "Content-Type": "application/json"} {
			if got := r.header.Get(field); got != want {
				t.Errorf("%s: %s: got %s, want %s", step.name, field, got, want)
			}
		}
		if !json.Valid([]byte(r.body)) {
			t.Errorf("%s: not JSON: %s", step.name, r.body)
		}
	}
}

// What is wrong with a request takes nothing, and says what to do.
func TestAllowRefuses(t *testing.T) {
	a, _ := newLimitAPI(t, testPolicies)
	many := `{"key":"a"}` + strings.Repeat(`,{"key":"a"}`, engine.MaxChecks)
	for _, test := range []struct {
		body   string
		status int
		code   api.Code
		field  string
		detail string
	}{
		{"", 400, "empty_body", "", "empty"},
		{" \n", 400, "empty_body", "", "empty"},
		{"[]", 400, "invalid_json", "", "write an object with key, limit, n, costs, checks and peek"},
		{`{"key":"a"`, 400, "invalid_json", "", "byte 11"},
		{`{"key":`, 400, "invalid_json", "", "byte 8"},
		{`{"key":"a","n": `, 400, "invalid_json", "", "byte 17"},
		{`{"key":"a","limit":{"per":`, 400, "invalid_json", "", "byte 27"},
		{`{"key":"a"}x`, 400, "invalid_json", "", "byte 12"},
		{`{"key":"a",}`, 400, "invalid_json", "", "byte 12"},
		{`{"key" "a"}`, 400, "invalid_json", "", "byte 8"},
		{`{"key":"a","key":"b"}`, 400, "invalid_json", "key", "twice"},
		{`{}`, 400, "missing_key", "key", "missing"},
		{`{"n":1}`, 400, "missing_key", "key", "missing"},
		{`{"key":1}`, 400, "invalid_key", "key", "must be a string"},
		{`{"key":""}`, 400, "invalid_key", "key", "empty"},
		{`{"key":"\ud800"}`, 400, "invalid_json", "", "not valid JSON"},
		{"{\"key\":\"\xff\"}", 400, "invalid_key", "key", "UTF-8"},
		{`{"key":"` + strings.Repeat("a", 513) + `"}`, 400, "invalid_key", "key", "512"},
		{`{"key":"a","limt":"login"}`, 400, "unknown_field", "limt", "limt: it is not known, did you mean limit?; there are key, limit, n, costs, checks and peek"},
		{`{"keys":["a"]}`, 400, "unknown_field", "keys", "did you mean key?"},
		{`{"key":"a","limit":{"n":1,"per":"1m","brust":2}}`, 400, "unknown_field", "limit.brust", "did you mean burst?"},
		{`{"checks":[{"key":"a","peek":true}]}`, 400, "unknown_field", "checks[0].peek", "there are key, limit, n and costs"},
		{`{"key":"a","n":-1}`, 400, "invalid_count", "n", "whole number from 0"},
		{`{"key":"a","n":1.0}`, 400, "invalid_count", "n", "in digits"},
		{`{"key":"a","n":"1"}`, 400, "invalid_count", "n", "in digits"},
		{`{"key":"a","n":99999999999999999999}`, 400, "invalid_count", "n", "35184372088832"},
		{`{"key":"a","limit":5}`, 400, "invalid_limit", "limit", "the name of a policy, or a limit like"},
		{`{"key":"a","limit":""}`, 400, "invalid_limit", "limit", "empty"},
		{`{"key":"a","limit":{"n":1}}`, 400, "invalid_limit", "limit", "needs n and per"},
		{`{"key":"a","limit":{"n":0,"per":"1m"}}`, 400, "invalid_count", "limit.n", "from 1"},
		{`{"key":"a","limit":{"n":1,"per":"soon"}}`, 400, "invalid_limit", "limit.per", "is not a duration"},
		{`{"key":"a","limit":{"n":1,"per":true}}`, 400, "invalid_limit", "limit.per", "a duration"},
		{`{"key":"a","limit":{"n":1,"per":"1us"}}`, 400, "invalid_limit", "limit.per", "is not a duration"},
		{`{"key":"a","limit":{"n":1,"per":"1m","algorithm":"leaky"}}`, 400, "invalid_limit", "limit.algorithm", "window, fixed or gcra"},
		{`{"key":"a","limit":{"n":1,"per":"700d"}}`, 400, "invalid_limit", "limit", "at most 1d"},
		{`{"key":"a","limit":{"name":"no spaces","n":1,"per":"1m"}}`, 400, "invalid_limit", "limit", "letters, digits"},
		{`{"key":"a","limit":{"name":"login","n":1,"per":"1m"}}`, 400, "invalid_limit", "limit", "is a policy"},
		{`{"key":"a","limit":"logn"}`, 404, "unknown_limit", "limit", "did you mean login?; there are login, trial, login/ip"},
		{`{"checks":[{"key":"a"},{"key":"a","limit":"logn"}]}`, 404, "unknown_limit", "limit", "logn"},
		{`{"key":"a","limit":"login"}`, 400, "invalid_key", "key", `its keys are "login:{user}:*"`},
		{`{"key":"login:bob:x","limit":"login","n":3}`, 400, "invalid_count", "n", `n of 3 can never pass limit login of key "login:bob": at most 2 at once`},
		{`{"checks":[{"key":"login:bob:x","limit":"login","n":2},{"key":"login:eve:x","limit":"login","n":2},{"key":"login:bob:y","limit":"login"}]}`, 400, "invalid_count", "n", `n of 3 together can never pass limit login of key "login:bob": at most 2 at once`},
		{`{"key":"login:bob:x","limit":"login","n":3,"peek":true}`, 400, "invalid_count", "n", "can never pass"},
		{`{"key":"a","peek":1}`, 400, "invalid_parameter", "peek", "true or false"},
		{`{"checks":[]}`, 400, "invalid_count", "checks", "no checks"},
		{`{"checks":{}}`, 400, "invalid_parameter", "checks", "an array"},
		{`{"checks":[{"key":"login:bob:1.1.1.1","limit":"login","n":2},{"key":"login:bob:1.1.1.2","limit":"login","n":2}]}`, 400, "invalid_count", "n", `n of 4 together can never pass limit login of key "login:bob": at most 2 at once`},
		{`{"checks":[{"key":"a"}],"key":"b"}`, 400, "invalid_parameter", "checks", "next to checks"},
		{`{"checks":[{"key":"a"},{"n":2}]}`, 400, "missing_key", "checks[1].key", "missing"},
		{`{"checks":[{"key":"a"},]}`, 400, "invalid_json", "checks[1]", "write an object"},
		{`{"checks":[` + many + `]}`, 400, "invalid_count", "checks", "more than 64"},
		{`{"key":"` + strings.Repeat(" ", MaxDecisionBytes) + `"}`, 413, "body_too_large", "", "larger than 256KiB, before or after decompression: send less at once"},
	} {
		r := a.allow(test.body)
		a.wantProblem(r, test.code, test.status)
		var p Problem
		if err := json.Unmarshal([]byte(r.body), &p); err != nil || p.Field != test.field || !strings.Contains(p.Detail, test.detail) {
			t.Errorf("%.80s: field %q, detail %q; want %q, %q", test.body, p.Field, p.Detail, test.field, test.detail)
		}
	}
	a.wantProblem(a.do("POST", "/v1/allow", "text/plain", `{"key":"a"}`), api.CodeUnsupportedType, 415)
	a.wantProblem(a.do("POST", "/v1/allow", "application/x-ndjson", `{"key":"a"}`), api.CodeUnsupportedType, 415)
	a.wantProblem(a.do("POST", "/v1/allow?key=a", "application/json", `{"key":"a"}`), api.CodeUnknownParameter, 400)
	a.wantProblem(a.do("POST", "/v1/allow", "application/json", `{"key":"a"}`, IdempotencyKey, "1"), api.CodeInvalidIdempotencyKey, 400)
	a.wantProblem(a.do("POST", "/v1/allow", "application/json", `{"key":"a"}`, "Content-Encoding", "br"), api.CodeUnsupportedEncoding, 415)
	a.wantProblem(a.do("DELETE", "/v1/allow", "", ""), api.CodeMethodNotAllowed, 405)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(`{"key":"a"}`))
	_ = z.Close()
	if r := a.do("POST", "/v1/allow", "application/json", zipped.String(), "Content-Encoding", "gzip"); r.status != 200 {
		t.Errorf("compressed: %d %s", r.status, r.body)
	}
	chunked, err := http.NewRequest("POST", a.url+"/v1/allow", io.MultiReader(strings.NewReader(`{"key":`), strings.NewReader(`"a"}`)))
	if err != nil {
		t.Fatal(err)
	}
	chunked.Header.Set("Content-Type", "application/json")
	if r := a.send(chunked); r.status != 200 {
		t.Errorf("of no declared length: %d %s", r.status, r.body)
	}
	if r := a.allow(`{"key":"login:bob:x","limit":"login","n":2}`); r.status != 200 {
		t.Errorf("what was refused has taken: %s", r.body)
	}
}

// Decisions are hits, so that Top and the dashboard show them, and they are counted by
// the metrics.
func TestDecisionsAreHits(t *testing.T) {
	a, _ := newLimitAPI(t, testPolicies+"  - {name: far, keys: \"far:{ip*}\", limit: 1, per: 1m, except: [10.0.0.0/8]}\n")
	for range 5 {
		a.allow(`{"key":"login:bob:x","limit":"login"}`)
	}
	if r := a.allow(`{"key":"far:10.0.0.1"}`); r.status != 200 || !strings.Contains(r.body, `"allowed":true,"limits":[]`) {
		t.Errorf("excepted: %d %s", r.status, r.body)
	}
	a.allow(`{"key":"login:bob:x","limit":"login","peek":true}`)
	a.allow(`{"key":"login:bob:x","limit":"login","n":0}`)
	a.allow(`{"key":"try:1"}`)
	a.allow(`{"key":"try:1"}`)
	a.allow(`{"key":"nobody's"}`)
	a.allow(`{"checks":[{"key":"nobody's"},{"key":"nor:this"}]}`)
	a.allow(`{"key":"nobody's","peek":true}`)
	a.allow(`{"key":"u","limit":{"name":"own","n":1,"per":"1m"}}`)
	// What can never pass is a mistake of the caller, and no decision.
	a.wantProblem(a.allow(`{"checks":[{"key":"login:bob:x","limit":"login","n":3},{"key":"try:1"}]}`), api.CodeInvalidCount, 400)
	// All or none: only who denied has a hit.
	a.allow(`{"checks":[{"key":"login:bob:x","limit":"login"},{"key":"login:eve:x","limit":"login"}]}`)
	var top struct{ Keys []api.TopKey }
	a.getInto("/v1/top?prefix=limit:&window=5m", &top)
	got := map[string]uint64{}
	for _, k := range top.Keys {
		got[k.Key] = k.Estimate
	}
	want := map[string]uint64{"limit:login:denied": 4, "limit:login:allowed": 2, "limit:trial:allowed": 1, "limit:trial:shadow_denied": 1, "limit:inline/own:allowed": 1}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	metrics := a.get("/metrics").body
	for key, n := range want {
		if got[key] != n {
			t.Errorf("%s: got %d, want %d", key, got[key], n)
		}
	}
	for _, line := range []string{
		`weir_limit_decisions_total{limit="login",outcome="allowed"} 2`, `weir_limit_decisions_total{limit="login",outcome="denied"} 4`,
		`weir_limit_decisions_total{limit="far",outcome="excepted"} 1`, `weir_limit_decisions_total{limit="trial",outcome="shadow_denied"} 1`, `weir_limit_decisions_total{limit="(inline)",outcome="allowed"} 1`,
		`weir_limit_hits_failed_total 0`, `weir_allow_unmatched_total 2`, `weir_policy_file_bad 0`, `weir_policy_reloads_total{result="ok"} 1`, `weir_policy_reloads_total{result="failed"} 0`, `weir_limit_states 4`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no %s in the metrics", line)
		}
	}
}

func TestLimits(t *testing.T) {
	a, _ := newLimitAPI(t, testPolicies)
	a.allow(`{"key":"login:bob:x","limit":"login"}`)
	a.allow(`{"key":"login:eve:x","limit":"login","n":2}`)
	a.allow(`{"key":"login:eve:x","limit":"login"}`)
	a.allow(`{"key":"login:eve:1.1.1.1","limit":"login/ip"}`)
	var answer struct {
		WindowS int64 `json:"window_s"`
		File    struct {
			Path     string
			LoadedAt int64 `json:"loaded_at"`
		}
		Limits []api.LimitPolicy
	}
	a.getInto("/v1/limits", &answer)
	if len(answer.Limits) != 3 || answer.WindowS != 300 || filepath.Base(answer.File.Path) != "policies.yaml" || answer.File.LoadedAt == 0 {
		t.Fatalf("got %+v", answer)
	}
	exact := func(n uint64) api.Bounds { return api.Bounds{Lower: n, Estimate: n, Upper: &n, Exact: true} }
	want := api.LimitPolicy{Name: "login", Keys: "login:{user}:*", By: "login:{user}", Limit: 2, PerSeconds: 60, Burst: 2, Algorithm: "window", Mode: "enforce", Where: "leased", Away: "closed", Overrides: 1,
		Allowed: exact(2), Denied: exact(1), ShadowDenied: exact(0)}
	if !reflect.DeepEqual(answer.Limits[0], want) {
		t.Errorf("got %+v, want %+v", answer.Limits[0], want)
	}
	if err := os.WriteFile(answer.File.Path, []byte("limits:\n  - name: login\n    limit: wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := a.server.service.Backend().PolicyFile
	for file.Reload(); file.Stats().Failures == 0; {
		runtime.Gosched()
	}
	if metrics := a.get("/metrics").body; !strings.Contains(metrics, "weir_policy_file_bad 1\n") || !strings.Contains(metrics, `weir_policy_reloads_total{result="failed"} 1`) {
		t.Error("the metrics do not say that the file is wrong")
	}
	if r := a.get("/readyz"); r.status != 200 || !strings.Contains(r.body, `"code":"policy_file_bad"`) {
		t.Errorf("no alarm: %d %s", r.status, r.body)
	}
	if r := a.get("/v1/limits"); !strings.Contains(r.body, `policies.yaml:3: `) {
		t.Errorf("a bad file is not reported: %s", r.body)
	}

	var keys api.LimitKeysAnswer
	a.getInto("/v1/limits/login/keys", &keys)
	if len(keys.Keys) != 2 || keys.Keys[0] != (api.LimitKey{Key: "login:eve", Used: 2, Burst: 2, Remaining: 0, Share: 1, ResetSeconds: 60}) || keys.Keys[1] != (api.LimitKey{Key: "login:bob", Used: 1, Burst: 2, Remaining: 1, Share: 0.5, ResetSeconds: 60}) {
		t.Errorf("got %+v", keys)
	}
	for _, path := range []string{"/v1/limits/login/ip/keys", "/v1/limits/login%2Fip/keys?n=1"} {
		a.getInto(path, &keys)
		if len(keys.Keys) != 1 || keys.Keys[0].Key != "ip:1.1.1.1" {
			t.Errorf("%s: got %+v", path, keys)
		}
	}
	unknown := a.get("/v1/limits/logn/keys")
	a.wantProblem(unknown, api.CodeUnknownLimit, 404)
	if want := `no limit \"logn\", did you mean login?; there are login, trial, login/ip","field":"name"`; !strings.Contains(unknown.body, want) {
		t.Errorf("got %s, want %s", unknown.body, want)
	}
	a.wantProblem(a.get("/v1/limits/login/keys?n=0"), api.CodeInvalidParameter, 400)
	a.wantProblem(a.get("/v1/limits?window=1500ms"), api.CodeInvalidWindow, 400)
	a.wantProblem(a.get("/v1/limits/login"), api.CodeNotFound, 404)
}

// A full memory of limits refuses, and grants nobody a fresh allowance.
func TestLimitMemory(t *testing.T) {
	a := newTestAPI(t, engine.Config{LimitMemory: 64 << 10}, options{})
	var full reply
	for i := range 2000 {
		full = a.allow(`{"key":"u` + strings.Repeat("x", 100) + string(rune('a'+i%26)) + time.Duration(i).String() + `","limit":{"n":1,"per":"1h"}}`)
		if full.status != 200 {
			break
		}
	}
	a.wantProblem(full, api.CodeOverloaded, 503)
	if full.header.Get("Retry-After") != "1" {
		t.Error("no Retry-After")
	}
}

// Decisions of many requests at once are never more than the burst.
func TestAllowAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.New(engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s, err := newServer(e, options{})
		if err != nil {
			t.Fatal(err)
		}
		const requests, burst = 400, 37
		statuses := make(chan int, requests)
		for range requests {
			go func() {
				statuses <- serveOnce(s, `{"checks":[{"key":"a","limit":{"n":37,"per":"1m"}},{"key":"b","limit":{"n":37,"per":"1m"}}]}`)
			}()
		}
		allowed := 0
		for range requests {
			if <-statuses == http.StatusOK {
				allowed++
			}
		}
		if allowed != burst {
			t.Errorf("%d were allowed, want %d", allowed, burst)
		}
	})
}
