package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/dashboard"
)

// events opens a stream of a view; next gives its events.
func (a *testAPI) events(path string, headers ...string) (next func() (event, data string), leave func()) {
	a.Helper()
	ctx, cancel := context.WithCancel(a.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		a.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		a.Fatal(err)
	}
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "text/event-stream" {
		a.Fatalf("%d %v", r.StatusCode, r.Header)
	}
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 1<<20)
	return func() (event, data string) {
			for lines.Scan() {
				if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
					event = text
				} else if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					return event, text
				}
			}
			return "end", ""
		}, func() {
			cancel()
			r.Body.Close()
		}
}

// A view is one answer, or for a caller that asks for events the same again and again.
func TestViews(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	a.post("a 3\nb 1")
	var once api.OverviewAnswer
	a.getInto("/v1/views/overview", &once)
	if len(once.Keys) != 2 || once.Keys[0].Key != "a" || once.All.Hits.Estimate != 4 {
		t.Errorf("%+v", once)
	}
	next, leave := a.events("/v1/views/overview")
	defer leave()
	_, first := next()
	a.post("a 2")
	event, second := next()
	var then api.OverviewAnswer
	if err := json.Unmarshal([]byte(second), &then); err != nil || event != "view" || first == second || then.Keys[0].Estimate != 5 {
		t.Errorf("%s %s: %v", event, second, err)
	}
	if n := a.server.board.Topics(); n != 1 {
		t.Errorf("%d topics", n)
	}
	leave()
	for end := time.Now().Add(time.Minute); a.server.board.Topics() > 0; {
		if time.Now().After(end) {
			t.Fatal("nobody looks, and it goes on")
		}
		a.get("/healthz")
	}
	var key api.KeyAnswer
	a.getInto("/v1/views/key?key=a&window=1h", &key)
	if len(key.Counts) != 5 || key.Counts[0].Estimate != 5 || len(key.Line.Estimate) != len(key.Before) {
		t.Errorf("%+v", key)
	}
	a.wantProblem(a.get("/v1/views/key?key=a&window=x"), api.CodeInvalidWindow, http.StatusBadRequest)
	a.wantProblem(a.do(http.MethodGet, "/v1/views/limits?name=x", "", "", "Accept", "text/event-stream"), api.CodeUnknownLimit, http.StatusNotFound)
}

// Who may see less from now on sees no view that was made before, neither in a stream that goes on nor in a new one.
func TestViewsOfANarrowedRole(t *testing.T) {
	const all, some = "permissions: [{role: read}]", "permissions: [{role: read, keys: ['in:']}]"
	a := newLockedAPI(t, map[string]string{"user": all}, options{})
	token := "Bearer " + tokenOf("user")
	next, leave := a.events("/v1/views/overview", "Authorization", token)
	defer leave()
	if event, first := next(); !strings.Contains(first, `"other"`) {
		t.Fatalf("not all keys: %s %s", event, first)
	}
	a.server.service.Backend().Tokens.Live().Use(lockedBy(t, map[string]string{"user": some}).Live().Set())
	later, leaveLater := a.events("/v1/views/overview", "Authorization", token)
	defer leaveLater()
	if event, first := later(); event != "view" || strings.Contains(first, `"other"`) || !strings.Contains(first, `"in:a"`) {
		t.Errorf("a new stream: %s %s", event, first)
	}
	for range 2 { // the first may have been on its way
		if event, view := next(); event != "view" {
			t.Errorf("the stream that went on: %s %s", event, view)
		} else if !strings.Contains(view, `"other"`) {
			return
		}
	}
	t.Error("the stream that went on shows all keys")
}

// logged waits until a stream of the live log has so many events, and gives its last view.
func logged(t *testing.T, next func() (event, data string), events int) (of api.LogView) {
	t.Helper()
	for range 60 { // views
		event, data := next()
		if err := json.Unmarshal([]byte(data), &of); err != nil || event != "view" {
			t.Fatalf("%s %s: %v", event, data, err)
		}
		if len(of.Events) >= events {
			return of
		}
	}
	t.Fatalf("%+v", of.Events)
	return of
}

// The live log has what comes while somebody looks, and what is denied.
func TestLiveLog(t *testing.T) {
	a, _ := newLimitAPI(t, "limits:\n- {name: login, keys: 'login:*', limit: 1, per: 1h}\n")
	a.post("before 1")
	next, leave := a.events("/v1/views/log?prefix=lo")
	defer leave()
	if first := logged(t, next, 0); len(first.Events) != 0 {
		t.Errorf("%+v", first.Events)
	}
	a.post("other 1\nlog:a 3")
	for range 2 {
		a.do(http.MethodPost, "/v1/allow", "application/json", `{"key":"login:<b>"}`)
	}
	of := logged(t, next, 2)
	if len(of.Events) != 2 || of.Hits.OneIn != 1 {
		t.Fatalf("%+v", of)
	}
	denied, hit := of.Events[0], of.Events[1]
	if hit.Kind != "hit" || hit.Key != "log:a" || hit.N != 3 || hit.Limit != "" || hit.Of != nil {
		t.Errorf("%+v", hit)
	}
	if denied.Kind != "denial" || denied.Key != "login:<b>" || denied.Limit != "login" || denied.Denial == "" {
		t.Errorf("%+v", denied)
	}
	a.getInto("/v1/views/log?for=1ms", &of)
	if len(of.Events) != 0 {
		t.Errorf("another log has what came before: %+v", of.Events)
	}
	a.wantProblem(a.get("/v1/views/log?for=11s"), api.CodeInvalidWindow, http.StatusBadRequest)
}

// Who may read some keys only sees nothing of others in the live log, and of no denial by another limit.
func TestLiveLogOfSomeKeys(t *testing.T) {
	a := newLockedAPI(t, map[string]string{"root": "permissions: [{role: ingest}, {role: decide}]", "shop": "permissions: [{role: read, keys: ['in:']}]"}, options{})
	next, leave := a.events("/v1/views/log", "Authorization", "Bearer "+tokenOf("shop"))
	defer leave()
	next()
	if r := a.as("root", http.MethodPost, "/v1/hits", `[{"key":"out:a"},{"key":"in:a"}]`); r.status != http.StatusOK {
		t.Fatal(r.body)
	}
	for _, event := range logged(t, next, 1).Events {
		if event.Key != "in:a" {
			t.Errorf("%+v", event)
		}
	}
	a.wantProblem(a.do(http.MethodGet, "/v1/views/log?prefix=out:", "", "", "Accept", "text/event-stream", "Authorization", "Bearer "+tokenOf("shop")), api.CodeForbidden, http.StatusForbidden)
}

// A client that opens many views leaves some for others.
func TestViewsOfOneClient(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{Service: service.Config{MaxInFlight: 2 * dashboard.MaxTopics}})
	for n := range dashboard.MaxOwn {
		_, leave := a.events(fmt.Sprintf("/v1/views/key?key=k%d", n))
		defer leave()
	}
	a.wantProblem(a.do(http.MethodGet, "/v1/views/key?key=more", "", "", "Accept", "text/event-stream"), api.CodeOverloaded, http.StatusServiceUnavailable)
	a.getInto("/v1/views/key?key=more", new(api.KeyAnswer))
}

// A server that stops ends its streams, and says so.
func TestStreamsEndWithTheServer(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{HTTP: Config{Addr: "127.0.0.1:0"}})
	if err := a.server.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.server.Run(ctx) }()
	a.url = "http://" + a.server.Addr()
	next, leave := a.events("/v1/views/nodes")
	defer leave()
	next()
	stop()
	for {
		event, data := next()
		if event == "problem" && strings.Contains(data, `"code":"stopping"`) {
			break
		}
		if event == "end" {
			t.Fatal("it ended without a word")
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
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
