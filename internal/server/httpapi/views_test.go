package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
)

// until asks for a view again and again, until it is good.
func until[A any](a *testAPI, path, token string, good func(A) bool) (view A) {
	a.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		headers := []string{}
		if token != "" {
			headers = []string{"Authorization", "Bearer " + token}
		}
		r := a.do(http.MethodGet, path, "", "", headers...)
		view = *new(A)
		if err := json.Unmarshal([]byte(r.body), &view); r.status != http.StatusOK || err != nil {
			a.Fatalf("%d %s: %v", r.status, r.body, err)
		}
		if good(view) {
			return view
		}
		if time.Now().After(end) {
			a.Fatalf("%+v", view)
		}
	}
}

// A view is one answer, which is made again after a while.
func TestViews(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	a.post("a 3\nb 1")
	var once api.OverviewAnswer
	a.getInto("/v1/views/overview", &once)
	if len(once.Keys) != 2 || once.Keys[0].Key != "a" || once.All.Hits.Estimate != 4 {
		t.Errorf("%+v", once)
	}
	a.post("a 2\nc 1")
	until(a, "/v1/views/overview", "", func(view api.OverviewAnswer) bool { return view.Keys[0].Estimate == 5 && len(view.Keys) == 3 })
	var key api.KeyAnswer
	a.getInto("/v1/views/key?key=a&window=1h", &key)
	if len(key.Counts) != 5 || key.Counts[0].Estimate != 5 || len(key.Line.Estimate) != len(key.Before) {
		t.Errorf("%+v", key)
	}
	a.wantProblem(a.get("/v1/views/key?key=a&window=x"), api.CodeInvalidWindow, http.StatusBadRequest)
	a.wantProblem(a.get("/v1/views/limits?name=x"), api.CodeUnknownLimit, http.StatusNotFound)
}

// Who may see less from now on sees no view that was made before.
func TestViewsOfANarrowedRole(t *testing.T) {
	const all, some = "permissions: [{role: read}]", "permissions: [{role: read, keys: ['in:']}]"
	a := newLockedAPI(t, map[string]string{"user": all, "other": some}, options{})
	overview := func(name string) string {
		return a.do(http.MethodGet, "/v1/views/overview", "", "", "Authorization", "Bearer "+tokenOf(name)).body
	}
	if first := overview("user"); !strings.Contains(first, `"other"`) {
		t.Fatalf("not all keys: %s", first)
	}
	if first := overview("other"); strings.Contains(first, `"other"`) || !strings.Contains(first, `"in:a"`) {
		t.Errorf("another identity's: %s", first)
	}
	a.server.service.Backend().Tokens.Live().Use(lockedBy(t, map[string]string{"user": some}).Live().Set())
	if then := overview("user"); strings.Contains(then, `"other"`) || !strings.Contains(then, `"in:a"`) {
		t.Errorf("as it was before: %s", then)
	}
	a.wantProblem(a.do(http.MethodGet, "/v1/views/overview", "", "", "Authorization", "Bearer "+tokenOf("other")), api.CodeUnauthorized, http.StatusUnauthorized)
}

// The live log has what comes while somebody looks, and what is denied.
func TestLiveLog(t *testing.T) {
	a, _ := newLimitAPI(t, "limits:\n- {name: login, keys: 'login:*', limit: 1, per: 1h}\n")
	a.post("before 1")
	var first api.LogView
	if a.getInto("/v1/views/log?prefix=lo", &first); len(first.Events) != 0 {
		t.Errorf("%+v", first.Events)
	}
	a.post("other 1\nlog:a 3")
	for range 2 {
		a.do(http.MethodPost, "/v1/allow", "application/json", `{"key":"login:<b>"}`)
	}
	view := until(a, "/v1/views/log?prefix=lo", "", func(v api.LogView) bool { return len(v.Events) >= 2 })
	if len(view.Events) != 2 || view.Hits.OneIn != 1 {
		t.Fatalf("%+v", view)
	}
	denied, hit := view.Events[0], view.Events[1]
	if hit.Kind != "hit" || hit.Key != "log:a" || hit.N != 3 || hit.Limit != "" || hit.Of != nil {
		t.Errorf("%+v", hit)
	}
	if denied.Kind != "denial" || denied.Key != "login:<b>" || denied.Limit != "login" || denied.Denial == "" {
		t.Errorf("%+v", denied)
	}
	if a.getInto("/v1/views/log", &view); len(view.Events) != 0 {
		t.Errorf("another log has what came before: %+v", view.Events)
	}
}

// Who may read some keys only sees nothing of others in the live log, and of no denial by another limit.
func TestLiveLogOfSomeKeys(t *testing.T) {
	a := newLockedAPI(t, map[string]string{"root": "permissions: [{role: ingest}, {role: decide}]", "shop": "permissions: [{role: read, keys: ['in:']}]"}, options{})
	token := tokenOf("shop")
	until(a, "/v1/views/log", token, func(api.LogView) bool { return true })
	if r := a.as("root", http.MethodPost, "/v1/hits", `[{"key":"out:a"},{"key":"in:a"}]`); r.status != http.StatusOK {
		t.Fatal(r.body)
	}
	for _, event := range until(a, "/v1/views/log", token, func(v api.LogView) bool { return len(v.Events) > 0 }).Events {
		if event.Key != "in:a" {
			t.Errorf("%+v", event)
		}
	}
	a.wantProblem(a.do(http.MethodGet, "/v1/views/log?prefix=out:", "", "", "Authorization", "Bearer "+token), api.CodeForbidden, http.StatusForbidden)
}

// Browsers get the dashboard, with or without a token; others what they always got.
func TestDashboardIsForBrowsers(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, a := range []*testAPI{newTestAPI(t, engine.Config{}, options{}), newLockedAPI(t, map[string]string{"root": "permissions: [{role: read}]"}, options{})} {
		page := a.do(http.MethodGet, "/", "", "", "Accept", browser)
		if page.status != http.StatusOK || !strings.Contains(page.body, "web/app.js") || page.header.Get("Vary") == "" {
			t.Errorf("%d %s", page.status, page.body)
		}
		if script := a.get("/web/app.js"); script.status != http.StatusOK || len(script.body) < 10_000 {
			t.Errorf("%d", script.status)
		}
		refused := a.do(http.MethodGet, "/v1/views/overview", "", "", "Accept", "application/json")
		if fields := refused.header.Values("WWW-Authenticate"); refused.status == http.StatusUnauthorized && (len(fields) != 1 || !strings.HasPrefix(fields[0], "Bearer")) {
			t.Errorf("a page's browser would ask for a password: %v", fields)
		}
		if a.server.service.Locked() {
			a.wantProblem(a.get("/"), "unauthorized", http.StatusUnauthorized)
		} else if docs := a.get("/"); !strings.Contains(docs.body, "page.js") {
			t.Errorf("%d %s", docs.status, docs.body)
		}
	}
}
