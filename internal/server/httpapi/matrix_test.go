package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
)

// ask is a request of the matrix, and for which role.
type ask struct {
	route        string // as OpenAPI writes it
	role         string // "any": every identity
	path, body   string // KEY and LIMIT stand for one of the tenant, or of another
	everythingOf bool   // it concerns all keys and limits
}

// asks has every route.
var asks = []ask{
	{"POST /v1/hits", "ingest", "/v1/hits", `{"key":"KEY"}`, false},
	{"POST /v1/web", "ingest", "/v1/web", `{"site":"out.example","path":"/"}`, true},
	{"POST /v1/allow", "decide", "/v1/allow", `{"key":"KEY","limit":"LIMIT"}`, false},
	{"POST /v1/allow", "decide", "/v1/allow", `{"key":"KEY","limit":"LIMIT","peek":true}`, false},
	{"GET /v1/forward-auth", "decide", "/v1/forward-auth?key=KEY&limit=LIMIT", "", false},
	{"GET /v1/count", "read", "/v1/count?key=KEY", "", false},
	{"GET /v1/count", "read", "/v1/count?key=in:a&key=KEY", "", false},
	{"GET /v1/count", "read", "/v1/count?key=*", "", true},
	{"GET /v1/rate", "read", "/v1/rate?key=KEY", "", false},
	{"GET /v1/series", "read", "/v1/series?key=KEY", "", false},
	{"GET /v1/series", "read", "/v1/series?key=limit:theirs:allowed", "", true},
	{"GET /v1/top", "read", "/v1/top?prefix=KEY", "", false},
	{"GET /v1/keys", "read", "/v1/keys?prefix=KEY", "", false},
	{"GET /v1/keys", "read", "/v1/keys?prefix=limit:", "", true},
	{"GET /v1/limits/{name}/keys", "read", "/v1/limits/LIMIT/keys", "", false},
	{"POST /v1/permits", "decide", "/v1/permits?key=KEY&limit=LIMIT", "", false},
	{"POST /v1/permits/{id}/heartbeat", "decide", "/v1/permits/PERMIT/heartbeat", "", false},
	{"DELETE /v1/permits/{id}", "decide", "/v1/permits/PERMIT", "", false},
	{"GET /v1/limits/who", "read", "/v1/limits/who?prefix=KEY", "", false},
	{"GET /v1/denials/{id}", "read", "/v1/denials/0000000000000", "", false},
	{"DELETE /v1/keys", "admin", "/v1/keys?prefix=KEY", "", false},
	{"DELETE /v1/keys", "admin", "/v1/keys?prefix=KEY&limits=true", "", true},
	{"DELETE /v1/keys/{key}", "admin", "/v1/keys/KEY", "", false},
	{"DELETE /v1/limits/{name}/keys/{key}", "admin", "/v1/limits/LIMIT/keys/KEY", "", false},
	{"POST /v1/bans", "admin", "/v1/bans?limit=LIMIT&key=KEY&for=1s", "", false},
	{"DELETE /v1/bans", "admin", "/v1/bans?limit=LIMIT&key=KEY", "", false},
	{"GET /v1/bans", "read", "/v1/bans", "", false},
	{"POST /v1/grants", "admin", "/v1/grants?limit=LIMIT&key=KEY&n=3&for=1h", "", false},
	{"PUT /v1/policies/{name}", "admin", "/v1/policies/LIMIT", `{"keys":"KEY","limit":5,"per":"1m"}`, false},
	{"GET /v1/policies/{name}", "admin", "/v1/policies/LIMIT", "", false},
	{"GET /v1/policies", "admin", "/v1/policies", "", false},
	{"DELETE /v1/policies/{name}", "admin", "/v1/policies/LIMIT", "", false},
	{"POST /v1/reserve", "decide", "/v1/reserve?id=r-KEY-LIMIT", `{"key":"KEY","limit":"LIMIT"}`, false},
	{"POST /v1/settle", "decide", "/v1/settle", `{"id":"nobody","used":1}`, false},
	{"POST /v1/refund", "decide", "/v1/refund", `{"key":"KEY","limit":"LIMIT"}`, false},
	{"DELETE /v1/limits/inline", "admin", "/v1/limits/inline", "", true},
	{"DELETE /v1/cluster/nodes/{node}", "admin", "/v1/cluster/nodes/n2", "", true},
	{"GET /v1/backup", "admin", "/v1/backup", "", true},
	{"POST /v1/restore", "admin", "/v1/restore?mode=merge", "x", true},
	{"GET /v1/export", "read", "/v1/export", "", true},
	{"GET /v1/stats", "read", "/v1/stats", "", true},
	{"GET /v1/cluster", "read", "/v1/cluster", "", true},
	{"GET /v1/regions", "read", "/v1/regions", "", true},
	{"GET /v1/regions/feed", "read", "/v1/regions/feed?as=us", "", true},
	{"DELETE /v1/regions/{region}", "admin", "/v1/regions/us", "", true},
	{"GET /v1/views/overview", "read", "/v1/views/overview?prefix=KEY", "", false},
	{"GET /v1/views/key", "read", "/v1/views/key?key=KEY", "", false},
	{"GET /v1/views/key", "read", "/v1/views/key?key=*", "", true},
	{"GET /v1/views/limits", "read", "/v1/views/limits", "", false},
	{"GET /v1/views/limits", "read", "/v1/views/limits?name=LIMIT", "", false},
	{"GET /v1/views/log", "read", "/v1/views/log?prefix=KEY", "", false},
	{"GET /v1/views/nodes", "read", "/v1/views/nodes", "", true},
	{"GET /v1/views/site", "read", "/v1/views/site?site=out.example", "", true},
	{"GET /v1/views/site", "read", "/v1/views/site", "", false},
	{"GET /metrics", "read", "/metrics", "", true},
	{"GET /openapi.json", "any", "/openapi.json", "", false},
	{"GET /docs", "any", "/docs", "", false},
	{"GET /v1/limits", "read", "/v1/limits", "", false},
}

// Every route, for every role, inside and outside its keys and limits.
func TestMatrix(t *testing.T) {
	identities := map[string]string{}
	for _, role := range auth.RoleNames() {
		identities[role+"0all"] = fmt.Sprintf("permissions: [{role: %s}]", role)
		limits := ", limits: [own]"
		if role == "ingest" {
			limits = ""
		}
		identities[role+"0some"] = fmt.Sprintf(`permissions: [{role: %s, keys: ["in:"]%s}]`, role, limits)
	}
	a := newLockedAPI(t, identities, options{HTTP: Config{Web: []string{"out.example"}}})
	for name := range identities {
		role, part, _ := strings.Cut(name, "0")
		for _, ask := range asks {
			for _, side := range []struct {
				name string
				is   *strings.Replacer
			}{
				{"inside", strings.NewReplacer("KEY", "in:login:a", "LIMIT", "own", "PERMIT", permitID("own", "in:login:a"))},
				{"outside", strings.NewReplacer("KEY", "out:a", "LIMIT", "theirs", "PERMIT", permitID("theirs", "out:a"))},
			} {
				method, _, _ := strings.Cut(ask.route, " ")
				path, body := side.is.Replace(ask.path), side.is.Replace(ask.body)
				r := a.as(name, method, path, body)
				sided := path != ask.path || body != ask.body
				may := ask.role == "any" || role == ask.role && (part == "all" || !ask.everythingOf && (side.name == "inside" || !sided))
				if r.status == http.StatusUnauthorized || strings.Contains(r.body, `"code":"forbidden"`) == may {
					t.Errorf("%s: %s %s %s: %d %s", name, method, path, body, r.status, r.body)
				}
				if !may {
					a.wantProblem(r, "forbidden", toProxy(path, http.StatusForbidden))
				}
			}
		}
	}
}

// No route is missing in the matrix: OpenAPI has all that answer with more than a page.
func TestMatrixIsWhole(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	var document struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(a.get("/openapi.json").body), &document); err != nil {
		t.Fatal(err)
	}
	for path, methods := range document.Paths {
		for method := range methods {
			route, found := strings.ToUpper(method)+" "+path, false
			for _, ask := range asks {
				found = found || ask.route == route
			}
			if !found {
				t.Errorf("the matrix has no %s", route)
			}
		}
	}
}

// What is asked of another's key is answered alike whether it exists or not.
func TestForeignKeysDoNotShow(t *testing.T) {
	identities := map[string]string{}
	for _, role := range auth.RoleNames() {
		identities[role] = fmt.Sprintf(`permissions: [{role: %s, keys: ["in:"]}]`, role)
	}
	a := newLockedAPI(t, identities, options{})
	for name := range identities {
		for _, ask := range asks {
			method, _, _ := strings.Cut(ask.route, " ")
			with := func(key, limit string) reply {
				is := strings.NewReplacer("KEY", key, "LIMIT", limit, "PERMIT", permitID(limit, key))
				return a.as(name, method, is.Replace(ask.path), is.Replace(ask.body))
			}
			here, gone := with("out:a", "theirs"), with("out:b", "nobody")
			same := strings.NewReplacer("out:b", "out:a", "nobody", "theirs")
			if refused := strings.Contains(here.body+gone.body, `"code":"forbidden"`); refused && (here.status != gone.status || here.body != same.Replace(gone.body)) {
				t.Errorf("%s: %s: %d %s\nbut %d %s", name, ask.route, here.status, here.body, gone.status, gone.body)
			}
		}
	}
}

// Lists have what the caller may read, and no hole where others' keys are.
func TestListsAreFiltered(t *testing.T) {
	a := newLockedAPI(t, map[string]string{
		"shop": `permissions: [{role: read, keys: ["in:", "other"]}]`,
		"none": `permissions: [{role: read, keys: ["nothing:"]}]`,
	}, options{})
	for path, want := range map[string]string{
		"/v1/keys":               "in:a in:b in:login:a other",
		"/v1/keys?limit=2":       "in:a in:b",
		"/v1/keys?after=in:b":    "in:login:a other",
		"/v1/keys?prefix=in:l":   "in:login:a",
		"/v1/top":                "in:a in:b in:login:a other",
		"/v1/top?n=3":            "in:a in:b in:login:a",
		"/v1/top?prefix=in":      "in:a in:b in:login:a",
		"/v1/limits":             "own",
		"/v1/limits?window=1h":   "own",
		"/v1/keys?prefix=oth":    "other",
		"/v1/top?prefix=in:b":    "in:b",
		"/v1/keys?prefix=in:b0x": "",
	} {
		if got := names(t, a.as("shop", http.MethodGet, path, "")); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"/v1/keys", "/v1/top", "/v1/limits"} {
		if got := names(t, a.as("none", http.MethodGet, path, "")); got != "" {
			t.Errorf("%s: %q of others", path, got)
		}
	}
}

// names are those that an answer lists.
func names(t *testing.T, r reply) string {
	t.Helper()
	var answer struct {
		Keys   []any
		Limits []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil || r.status != http.StatusOK {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	var list []string
	for _, key := range answer.Keys {
		if member, ok := key.(map[string]any); ok {
			key = member["key"]
		}
		list = append(list, key.(string))
	}
	for _, limit := range answer.Limits {
		list = append(list, limit.Name)
	}
	return strings.Join(list, " ")
}
