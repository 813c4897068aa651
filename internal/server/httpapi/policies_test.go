package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
)

// keptPolicies keeps policies that are put by API in memory.
func keptPolicies(t *testing.T, live *admit.Live, first bool) *access.KeptPolicies {
	t.Helper()
	kept, err := access.OpenKept(t.Context(), nil, live, first, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

const filePolicies = "limits:\n  - {name: file, keys: \"file:*\", limit: 2, per: 1h}\n"

func newPoliciesAPI(t *testing.T, apiWins bool, cfg options) *testAPI {
	t.Helper()
	e, live := policyEngine(t, engine.Config{}, filePolicies)
	cfg.Backend.Policies, cfg.Backend.Kept = live, keptPolicies(t, live, apiWins)
	return serveTestAPI(t, e, cfg)
}

func (a *testAPI) putPolicy(name, policy string, headers ...string) reply {
	a.Helper()
	return a.do(http.MethodPut, "/v1/policies/"+name, "application/yaml", policy, headers...)
}

// A policy is put, decides, is changed without a fresh allowance, and is deleted.
func TestPutPolicy(t *testing.T) {
	t.Parallel()
	a := newPoliciesAPI(t, false, options{})
	allow := func(want int) {
		t.Helper()
		if r := a.do(http.MethodPost, "/v1/allow", "application/json", `{"key":"login:bob"}`); r.status != want {
			t.Errorf("%d %s, want %d", r.status, r.body, want)
		}
	}
	r := a.putPolicy("team/login", `{"keys":"login:*","limit":2,"per":"1h"}`)
	if r.status != http.StatusCreated || r.header.Get("ETag") != `"1"` || !strings.Contains(r.body, `"in_use":true,"new":true`) {
		t.Fatalf("%d %s", r.status, r.body)
	}
	allow(http.StatusOK)
	allow(http.StatusOK)
	allow(http.StatusTooManyRequests)
	if r := a.putPolicy("team%2Flogin", "keys: \"login:*\"\nlimit: 3\nper: 1h\n"); r.status != http.StatusOK || r.header.Get("ETag") != `"2"` {
		t.Fatalf("%d %s", r.status, r.body)
	}
	allow(http.StatusOK)
	allow(http.StatusTooManyRequests)
	if r := a.get("/v1/limits"); !strings.Contains(r.body, `"name":"team/login","keys":"login:*","version":2,"limit":3`) || strings.Count(r.body, `"version"`) != 1 {
		t.Errorf("%s", r.body)
	}
	var is api.KeptPolicy
	if r := a.get("/v1/policies/team/login"); json.Unmarshal([]byte(r.body), &is) != nil || is.Version != 2 || !strings.Contains(is.Policy, "limit: 3") || is.By != "anybody" || !is.InUse {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.get("/v1/policies"); !strings.Contains(r.body, `{"version":2,"policies":[{"name":"team/login"`) {
		t.Errorf("%s", r.body)
	}
	if r := a.do(http.MethodDelete, "/v1/policies/team/login", "", ""); r.status != http.StatusOK || !strings.Contains(r.body, `"version":2`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	allow(http.StatusOK)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		a.wantProblem(a.do(method, "/v1/policies/team/login", "", ""), "unknown_limit", http.StatusNotFound)
	}
	for policy, want := range map[string]string{
		"keys: \"login:*\"\nlimt: 3\nper: 1h\n":                    "new:2: limt: unknown field, did you mean limit?",
		`{"keys":"login:*","limit":2,"per":"1h","where":"global"}`: "new:1: regions: it is missing",
	} {
		if r := a.putPolicy("new", policy); r.status != http.StatusBadRequest || !strings.Contains(r.body, `"code":"invalid_policy"`) || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s, want %s", policy, r.status, r.body, want)
		}
	}
	a.wantProblem(a.putPolicy("new", "keys: \""+strings.Repeat("x", admit.MaxText)+"\""), "body_too_large", http.StatusRequestEntityTooLarge)
	if r := a.get("/metrics"); !strings.Contains(r.body, "weir_kept_policies_version 3\n") || !strings.Contains(r.body, "weir_kept_policies_changes_total 3\n") {
		t.Error("the metrics do not tell of three changes")
	}
}

// Whose policy is in use where the file has one of the name.
func TestFileOrAPI(t *testing.T) {
	t.Parallel()
	const other = `{"keys":"file:*","limit":7,"per":"1h"}`
	a := newPoliciesAPI(t, false, options{})
	a.wantProblem(a.putPolicy("file", other), "policy_in_file", http.StatusConflict)
	a = newPoliciesAPI(t, true, options{})
	if r := a.putPolicy("file", other); r.status != http.StatusCreated {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.get("/v1/limits"); !strings.Contains(r.body, `"limit":7`) || strings.Contains(r.body, `"limit":2,`) {
		t.Errorf("%s", r.body)
	}
	e, live := policyEngine(t, engine.Config{}, filePolicies)
	off := serveTestAPI(t, e, options{Backend: service.Backend{Policies: live}})
	for _, ask := range []string{"GET /v1/policies", "GET /v1/policies/file", "PUT /v1/policies/file", "DELETE /v1/policies/file"} {
		method, path, _ := strings.Cut(ask, " ")
		off.wantProblem(off.do(method, path, "application/yaml", "x"), "policies_api_off", http.StatusConflict)
	}
}

// Of writers of one version one wins, and the others learn it.
func TestWritersOfOneVersion(t *testing.T) {
	t.Parallel()
	a := newPoliciesAPI(t, false, options{})
	const text = `{"keys":"k:*","limit":%d,"per":"1h"}`
	a.wantProblem(a.putPolicy("p", fmt.Sprintf(text, 1), "If-Match", `"1"`), "version_mismatch", http.StatusPreconditionFailed)
	for version := 0; version < 3; version++ {
		condition := []string{"If-None-Match", "*"}
		if version > 0 {
			condition = []string{"If-Match", fmt.Sprintf("%q", fmt.Sprint(version))}
		}
		var writing sync.WaitGroup
		statuses := make([]int, 8)
		for i := range statuses {
			writing.Go(func() { statuses[i] = a.putPolicy("p", fmt.Sprintf(text, 10+i), condition...).status })
		}
		writing.Wait()
		won, winner := 0, 0
		for i, status := range statuses {
			switch {
			case status/100 == 2:
				won, winner = won+1, i
			case status != http.StatusPreconditionFailed:
				t.Errorf("writer %d: %d", i, status)
			}
		}
		if r := a.get("/v1/policies/p"); won != 1 || r.header.Get("ETag") != fmt.Sprintf("%q", fmt.Sprint(version+1)) || !strings.Contains(r.body, fmt.Sprintf(`\"limit\":%d`, 10+winner)) {
			t.Errorf("%d writers won, the last is %d: %s", won, winner, r.body)
		}
	}
	a.wantProblem(a.do(http.MethodDelete, "/v1/policies/p", "", "", "If-Match", `"2"`), "version_mismatch", http.StatusPreconditionFailed)
	a.wantProblem(a.do(http.MethodDelete, "/v1/policies/p", "", "", "If-Match", `"x"`), "invalid_parameter", http.StatusBadRequest)
}

// Who may change some policies changes no other, by no name and for no key; the audit log has who did what.
func TestPoliciesOfOthers(t *testing.T) {
	t.Parallel()
	var audit bytes.Buffer
	var mu sync.Mutex
	a := newLockedAPI(t, map[string]string{
		"root": "permissions: [{role: admin}]",
		"in":   `permissions: [{role: admin, keys: ["in:"]}]`,
	}, options{Service: service.Config{Audit: slog.New(slog.NewTextHandler(&locked{&mu, &audit}, nil))}})
	put := func(who, name, keys string) int {
		return a.as(who, http.MethodPut, "/v1/policies/"+name, fmt.Sprintf(`{"keys":%q,"limit":5,"per":"1m"}`, keys)).status
	}
	for _, step := range []struct {
		who, name, keys string
		want            int
	}{
		{"root", "api", "out:*", http.StatusCreated},
		{"in", "api", "in:*", http.StatusForbidden}, // it is another's
		{"in", "theirs", "in:*", http.StatusForbidden},
		{"in", "mine", "*", http.StatusForbidden},
		{"in", "mine", "in:*", http.StatusCreated},
		{"in", "mine", "out:*", http.StatusForbidden},
		{"root", "mine", "out:*", http.StatusOK},
		{"in", "mine", "in:*", http.StatusForbidden},
	} {
		if got := put(step.who, step.name, step.keys); got != step.want {
			t.Errorf("%s puts %s for %s: %d, want %d", step.who, step.name, step.keys, got, step.want)
		}
	}
	for _, name := range []string{"mine", "api", "nobody"} {
		a.wantProblem(a.as("in", http.MethodDelete, "/v1/policies/"+name, ""), "forbidden", http.StatusForbidden)
		a.wantProblem(a.as("in", http.MethodGet, "/v1/policies/"+name, ""), "forbidden", http.StatusForbidden)
	}
	if r := a.as("in", http.MethodGet, "/v1/policies", ""); !strings.Contains(r.body, `"policies":[]`) {
		t.Errorf("%s", r.body)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{
		`who=root action="put policy" target="api version 1" outcome=done`,
		`who=in action="put policy" target=api outcome=forbidden`,
		`who=in action="put policy" target="mine version 2" outcome=done`,
		`who=in action="delete policy" target=nobody outcome=forbidden`,
	} {
		if !strings.Contains(audit.String(), want) {
			t.Errorf("the audit log has no %s:\n%s", want, audit.String())
		}
	}
}

// locked is a buffer that many write to.
type locked struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}
