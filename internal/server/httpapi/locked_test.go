package httpapi

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
)

// tokenOf is the token of an identity in lockedBy.
func tokenOf(name string) string { return "weir_" + name + "_secret" }

// lockedBy are identities, each with its fields of YAML and the token that tokenOf says.
func lockedBy(t *testing.T, identities map[string]string) *access.Tokens {
	t.Helper()
	var file strings.Builder
	file.WriteString("identities:\n")
	for name, fields := range identities {
		fmt.Fprintf(&file, "- {name: %s, %s, tokens: [{id: %s, sha256: %x}]}\n", name, fields, name, sha256.Sum256([]byte(tokenOf(name))))
	}
	set, err := auth.Parse("tokens", []byte(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	return access.NewTokens(set)
}

const lockedPolicies = `limits:
  - {name: own, keys: "in:login:*", limit: 1000, per: 1m}
  - {name: theirs, keys: "out:*", limit: 1000, per: 1m}
`

// newLockedAPI is a server with keys and policies of two tenants, whose prefixes are in: and out:.
func newLockedAPI(t *testing.T, identities map[string]string, cfg options) *testAPI {
	t.Helper()
	e, live := policyEngine(t, engine.Config{}, lockedPolicies)
	for _, key := range []string{"in:a", "in:b", "in:login:a", "out:a", "other"} {
		if err := e.Hit(key); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Backend.Policies, cfg.Backend.Kept = live, keptPolicies(t, live, true)
	cfg.Backend.Tokens = lockedBy(t, identities)
	return serveTestAPI(t, e, cfg)
}

// as asks as an identity; "": without a token.
func (a *testAPI) as(name, method, path, body string) reply {
	a.Helper()
	contentType := ""
	if body != "" {
		contentType = "application/json"
	}
	if name == "" {
		return a.do(method, path, contentType, body)
	}
	if strings.HasPrefix(path, ForwardAuthPath) {
		return a.do(method, path, contentType, body, TokenHeader, tokenOf(name), ForwardedMark, "/")
	}
	return a.do(method, path, contentType, body, "Authorization", "Bearer "+tokenOf(name))
}

// toProxy is the status that stands for one of a client where a proxy asks for it.
func toProxy(path string, status int) int {
	if strings.HasPrefix(path, ForwardAuthPath) {
		return http.StatusInternalServerError
	}
	return status
}

// Who can't prove an identity gets nothing but health, and learns how to ask.
func TestUnauthorized(t *testing.T) {
	a := newLockedAPI(t, map[string]string{"root": "permissions: [{role: ingest}, {role: read}]"}, options{})
	for name, headers := range map[string][]string{
		"nothing":         nil,
		"a wrong secret":  {"Authorization", "Bearer " + tokenOf("root") + "x"},
		"no such token":   {"Authorization", "Bearer weir_nobody_secret"},
		"not a token":     {"Authorization", "Bearer x"},
		"another scheme":  {"Authorization", "Digest username=root"},
		"another's name":  {"Authorization", basic("somebody", tokenOf("root"))},
		"a wrong one too": {"Authorization", basic("root", "x")},
	} {
		for _, listener := range listeners {
			method, path, _ := strings.Cut(listener, " ")
			r := a.do(method, path, "", "", headers...)
			if path == "/healthz" || path == "/readyz" || path == "/web/app.js" {
				if r.status != http.StatusOK {
					t.Errorf("%s: %s: %d", name, listener, r.status)
				}
				continue
			}
			a.wantProblem(r, "unauthorized", toProxy(path, http.StatusUnauthorized))
			if fields := r.header.Values("WWW-Authenticate"); strings.HasPrefix(path, ForwardAuthPath) {
				if len(fields) > 0 { // a browser would ask its user for this server's token
					t.Errorf("%s: %s: WWW-Authenticate %q", name, listener, fields)
				}
			} else if len(fields) != 2 || !strings.HasPrefix(fields[0], "Bearer ") {
				t.Errorf("%s: %s: WWW-Authenticate %q", name, listener, fields)
			}
		}
	}
	for name, authorization := range map[string]string{
		"bearer": "bearer " + tokenOf("root"), "basic": basic("root", tokenOf("root")), "basic without a name": basic("", tokenOf("root")),
	} {
		if r := a.do(http.MethodGet, "/v1/count?key=other", "", "", "Authorization", authorization); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

func basic(user, password string) string {
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization")
}

// Metrics tell what each identity used, so only an identity that may read everything sees them.
func TestIdentityMetrics(t *testing.T) {
	a := newLockedAPI(t, map[string]string{
		"shop": `permissions: [{role: ingest, keys: ["in:"]}], ceilings: {hits_per_second: 1}`,
		"ops":  "permissions: [{role: read}]",
	}, options{})
	a.as("shop", http.MethodPost, "/v1/hits", `[{"key":"in:a"},{"key":"out:a"},{"key":"in:b"}]`)
	r := a.as("shop", http.MethodPost, "/v1/hits", `{"key":"in:a"}`)
	a.wantProblem(r, "ceiling_reached", http.StatusTooManyRequests)
	if r.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	a.do(http.MethodGet, "/metrics", "", "")
	metrics := a.as("ops", http.MethodGet, "/metrics", "").body
	for _, want := range []string{
		`weir_identity_requests_total{identity="shop"} 2`, `weir_identity_hits_total{identity="shop"} 1`,
		`weir_identity_refused_total{identity="shop",reason="forbidden"} 1`, `weir_identity_refused_total{identity="shop",reason="hits_per_second"} 2`,
		"weir_unauthorized_total 1", "weir_identities 2", `weir_tokens{state="good"} 2`, "weir_tokens_file_bad 0",
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

// Strangers read of a server with tokens which alarms it has, and nothing of what they name.
func TestReadyForStrangers(t *testing.T) {
	disk := &failing{}
	a := newLockedAPI(t, map[string]string{"root": "permissions: [{role: read}]"}, options{Backend: service.Backend{Journal: disk}})
	for _, mode := range []int32{electing, refusing} {
		disk.mode.Store(mode)
		if r := a.get("/readyz"); !strings.Contains(r.body, "journal_failing") || strings.Contains(r.body, "the disk takes nothing") {
			t.Errorf("strangers read %s", r.body)
		}
		if r := a.do(http.MethodGet, "/readyz", "", "", "Authorization", "Bearer "+tokenOf("root")); !strings.Contains(r.body, "the disk takes nothing") {
			t.Errorf("with a token: %s", r.body)
		}
	}
}
