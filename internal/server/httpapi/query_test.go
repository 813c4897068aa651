package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

func TestCount(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	now := start.Unix()
	a.post(fmt.Sprintf("url:/home 3\nurl:/home 2 %d\nuser:1 1 %d\n", now-10, now-300))
	for path, want := range map[string]string{
		"/v1/count?key=url:/home":                                `{"key":"url:/home","window_s":300,"at":1769860800,"lower":5,"estimate":5,"upper":5,"exact":true}`,
		"/v1/count?key=url%3A%2Fhome&window=10s":                 `{"key":"url:/home","window_s":10,"at":1769860800,"lower":3,"estimate":3,"upper":3,"exact":true}`,
		"/v1/count?key=url:/home&window=11":                      `{"key":"url:/home","window_s":11,"at":1769860800,"lower":5,"estimate":5,"upper":5,"exact":true}`,
		"/v1/count?key=url:/home&at=1769860799&window=1m":        `{"key":"url:/home","window_s":60,"at":1769860799,"lower":2,"estimate":2,"upper":2,"exact":true}`,
		"/v1/count?key=url:/home&at=2026-01-31T12:59:59%2B01:00": `{"key":"url:/home","window_s":300,"at":1769860799,"lower":2,"estimate":2,"upper":2,"exact":true}`,
		"/v1/count?key=url:/home&at=2026-01-31T12:59:59+01:00":   `{"key":"url:/home","window_s":300,"at":1769860799,"lower":2,"estimate":2,"upper":2,"exact":true}`,
		"/v1/count?key=never&window=1w":                          `{"key":"never","window_s":604800,"at":1769860800,"lower":0,"estimate":0,"upper":0,"exact":true}`,
		"/v1/count?key=*&window=1h30m":                           `{"key":"*","window_s":5400,"at":1769860800,"lower":6,"estimate":6,"upper":6,"exact":true}`,
		"/v1/rate?key=url:/home&window=10":                       `{"key":"url:/home","window_s":10,"at":1769860800,"lower":3,"estimate":3,"upper":3,"exact":true,"per_second":{"lower":0.3,"estimate":0.3,"upper":0.3}}`,
		"/v1/count?key=user:1&key=a,b&window=5m&window=6m": `{"counts":[` +
			`{"key":"user:1","window_s":300,"at":1769860800,"lower":0,"estimate":0,"upper":0,"exact":true},` +
			`{"key":"user:1","window_s":360,"at":1769860800,"lower":1,"estimate":1,"upper":1,"exact":true},` +
			`{"key":"a,b","window_s":300,"at":1769860800,"lower":0,"estimate":0,"upper":0,"exact":true},` +
			`{"key":"a,b","window_s":360,"at":1769860800,"lower":0,"estimate":0,"upper":0,"exact":true}]}`,
		"/v1/rate?key=*&key=user:1&window=1": `{"counts":[` +
			`{"key":"*","window_s":1,"at":1769860800,"lower":3,"estimate":3,"upper":3,"exact":true,"per_second":{"lower":3,"estimate":3,"upper":3}},` +
			`{"key":"user:1","window_s":1,"at":1769860800,"lower":0,"estimate":0,"upper":0,"exact":true,"per_second":{"lower":0,"estimate":0,"upper":0}}]}`,
	} {
		if r := a.get(path); r.status != 200 || withoutAsOf(r.body) != want || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("GET %s\ngot  %d %s\nwant %s", path, r.status, r.body, want)
		}
	}
}

// At a fraction of a second the bounds leave space for the seconds that the
// window cuts.
func TestCountAtFraction(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	now := start.Unix()
	a.post(fmt.Sprintf("k 1 %d.25\nk 1 %d.75\nk 1 %d", now, now, now-5))
	var got api.CountAnswer
	a.getInto(fmt.Sprintf("/v1/count?key=k&window=10&at=%d.5", now), &struct{ *api.Bounds }{&got.Bounds})
	if got.Lower > 2 || got.Upper == nil || *got.Upper < 2 || got.Exact {
		t.Errorf("got %+v, want bounds around 2", got.Bounds)
	}
}

func TestEventClock(t *testing.T) {
	a := newTestAPI(t, engine.Config{Clock: engine.EventClock, Now: time.Now}, options{})
	var c api.Bounds
	a.getInto("/v1/count?key=k", &c) // no hit yet: there is no time to ask at
	a.post("k 1 807249600\nk\n")
	r := a.get("/v1/count?key=k&window=1s")
	if want := `{"key":"k","window_s":1,"at":807249600,"lower":2,"estimate":2,"upper":2,"exact":true}`; withoutAsOf(r.body) != want {
		t.Errorf("got %s, want %s", r.body, want)
	}
}

func TestSeries(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	now := start.Unix()
	a.post(fmt.Sprintf("k 3\nk 2 %d\nk 1 %d", now-60, now-119))
	r := a.get(fmt.Sprintf("/v1/series?key=k&from=%d&to=%d&step=1m", now-120, now))
	want := fmt.Sprintf(`{"key":"k","from":%d,"to":%d,"step_s":60,"points":[`+
		`{"at":%d,"lower":3,"estimate":3,"upper":3,"exact":true},{"at":%d,"lower":3,"estimate":3,"upper":3,"exact":true}]}`, now-120, now, now-60, now)
	if r.status != 200 || withoutAsOf(r.body) != want {
		t.Errorf("got  %d %s\nwant %s", r.status, r.body, want)
	}
	var all struct {
		Points []struct{ At float64 }
	}
	a.getInto("/v1/series?key=k", &all)
	if len(all.Points) != 60 || all.Points[59].At != float64(now) {
		t.Errorf("the defaults give %d points", len(all.Points))
	}
}

// When step does not divide the span the points end at to.
func TestSeriesEndsAtTo(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	now := start.Unix()
	a.post("k 3\n")
	r := a.get(fmt.Sprintf("/v1/series?key=k&from=%d&to=%d.5&step=1m", now-150, now))
	want := fmt.Sprintf(`{"key":"k","from":%d,"to":%d,"step_s":60,"points":[`+
		`{"at":%d,"lower":0,"estimate":0,"upper":0,"exact":true},{"at":%d,"lower":3,"estimate":3,"upper":3,"exact":true}]}`, now-120, now, now-60, now)
	if r.status != 200 || withoutAsOf(r.body) != want {
		t.Errorf("got  %d %s\nwant %s", r.status, r.body, want)
	}
}

func TestTop(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	now := start.Unix()
	a.post(fmt.Sprintf("url:/a 3\nurl:/b 5\nuser:1 9\nurl:/old 99 %d", now-600))
	for path, want := range map[string]string{
		"/v1/top?prefix=url:":   `{"window_s":300,"at":1769860800,"prefix":"url:","keys":[{"key":"url:/b","lower":5,"estimate":5,"upper":5,"exact":true},{"key":"url:/a","lower":3,"estimate":3,"upper":3,"exact":true}]}`,
		"/v1/top?n=1":           `{"window_s":300,"at":1769860800,"prefix":"","keys":[{"key":"user:1","lower":9,"estimate":9,"upper":9,"exact":true}]}`,
		"/v1/top?n=1&window=1h": `{"window_s":3600,"at":1769860800,"prefix":"","keys":[{"key":"url:/old","lower":99,"estimate":99,"upper":99,"exact":true}]}`,
		"/v1/top?prefix=x":      `{"window_s":300,"at":1769860800,"prefix":"x","keys":[]}`,
		fmt.Sprintf("/v1/top?window=1m&at=%d", now-590): fmt.Sprintf(`{"window_s":60,"at":%d,"prefix":"","keys":[{"key":"url:/old","lower":99,"estimate":99,"upper":99,"exact":true}]}`, now-590),
	} {
		if r := a.get(path); r.status != 200 || withoutAsOf(r.body) != want {
			t.Errorf("GET %s\ngot  %d %s\nwant %s", path, r.status, r.body, want)
		}
	}
}

func TestKeys(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	a.post("b\na/1\na/2\na/3\n")
	for path, want := range map[string]string{
		"/v1/keys":                               `{"keys":["a/1","a/2","a/3","b"]}`,
		"/v1/keys?prefix=a/&limit=2":             `{"keys":["a/1","a/2"],"next":"a/2"}`,
		"/v1/keys?prefix=a/&limit=2&after=a%2F2": `{"keys":["a/3"]}`,
		"/v1/keys?limit=4":                       `{"keys":["a/1","a/2","a/3","b"]}`,
		"/v1/keys?prefix=x":                      `{"keys":[]}`,
	} {
		if r := a.get(path); r.status != 200 || withoutAsOf(r.body) != want {
			t.Errorf("GET %s\ngot  %d %s\nwant %s", path, r.status, r.body, want)
		}
	}
}

// A key is deleted under the very name it was hit by, whether its path comes
// raw or percent-encoded.
func TestDeleteKey(t *testing.T) {
	for key, raw := range map[string]string{
		"url:/home": "url:/home", "a//b/../c": "a//b/../c", "/lead": "/lead", "trail/": "trail/", "https://x.y/z": "https://x.y/z",
		".": "", "..": "..", "...": "...", "a/./b": "a/./b", "q?x#y%20": "", "é": "é", "+ &;": "", "{key}": "",
	} {
		for _, path := range []string{url.PathEscape(key), raw} {
			if path == "" {
				continue
			}
			a := newTestAPI(t, engine.Config{}, options{})
			if err := a.engine.Hit(key); err != nil {
				t.Fatal(err)
			}
			a.post("other")
			if r := a.rawDelete("/v1/keys/" + path); r.status != http.StatusNoContent || r.body != "" {
				t.Errorf("DELETE %s: %d %s", path, r.status, r.body)
			}
			if keys, err := a.engine.Keys("", "", 10); err != nil || len(keys) != 1 || keys[0] != "other" {
				t.Errorf("after DELETE %s: %q, %v", path, keys, err)
			}
			a.wantProblem(a.rawDelete("/v1/keys/"+path), api.CodeUnknownKey, 404)
		}
	}
}

// rawDelete sends path as it is; http.NewRequest would tidy it.
func (a *testAPI) rawDelete(path string) reply {
	a.Helper()
	u, err := url.Parse(a.url)
	if err != nil {
		a.Fatal(err)
	}
	u.Opaque = "//" + u.Host + path
	return a.send(&http.Request{Method: http.MethodDelete, URL: u, Header: http.Header{}})
}

func TestStats(t *testing.T) {
	a := newTestAPI(t, engine.Config{Memory: 1 << 26}, options{Service: service.Config{Version: "v1"}})
	var got map[string]any
	a.getInto("/v1/stats", &got)
	if _, has := got["newest"]; has {
		t.Errorf("newest without a hit: %v", got["newest"])
	}
	a.post("a 3\nb 2 1769860000\nc 1 1000\n\n")
	a.getInto("/v1/stats", &got)
	for field, want := range map[string]any{"hits": 5.0, "keys": 2.0, "too_late": 1.0, "newest": 1769860800.0, "now": 1769860800.0, "memory_budget_bytes": float64(1 << 26), "version": "v1"} {
		if got[field] != want {
			t.Errorf("%s: got %v, want %v", field, got[field], want)
		}
	}
}

func TestQuestionsThatFail(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{Service: service.Config{MaxAnswers: 4}})
	for _, c := range []struct {
		method, path string
		code         api.Code
		status       int
		says         string
	}{
		{"GET", "/v1/count", api.CodeMissingKey, 400, "key"},
		{"GET", "/v1/rate?key=", api.CodeInvalidKey, 400, "key is empty"},
		{"GET", "/v1/series?key=", api.CodeInvalidKey, 400, "key is empty"},
		{"GET", "/v1/count?key=a&at=1&at=2", api.CodeInvalidParameter, 400, "at is given 2 times"},
		{"GET", "/v1/top?window=1m&window=5m", api.CodeInvalidParameter, 400, "window is given 2 times"},
		{"GET", "/v1/series?key=a&key=b", api.CodeInvalidParameter, 400, "key is given 2 times"},
		{"GET", "/v1/keys?limit=1&limit=2", api.CodeInvalidParameter, 400, "limit is given 2 times"},
		{"GET", "/v1/count?key=a&window=", api.CodeInvalidParameter, 400, "window is empty"},
		{"GET", "/v1/count?key=a&window=1m&window=", api.CodeInvalidParameter, 400, "window is empty"},
		{"GET", "/v1/top?window=", api.CodeInvalidParameter, 400, "window is empty"},
		{"GET", "/v1/top?n=&prefix=", api.CodeInvalidParameter, 400, "n is empty"},
		{"GET", "/v1/count?key=a&at=2099-01-01T00:00:00Z", api.CodeInvalidParameter, 400, "2099-01-01T00:00:00Z is in the future"},
		{"GET", "/v1/rate?key=a&at=2099-01-01T00:00:00Z", api.CodeInvalidParameter, 400, "leave at out"},
		{"GET", "/v1/top?at=2099-01-01T00:00:00Z", api.CodeInvalidParameter, 400, "is in the future"},
		{"GET", "/v1/count?key=a&at=", api.CodeInvalidParameter, 400, "at is empty"},
		{"GET", "/v1/count?key=a&key=", api.CodeInvalidKey, 400, "key is empty: a key has 1 to 512"},
		{"GET", "/v1/count?key=%ff", api.CodeInvalidKey, 400, "UTF-8"},
		{"GET", "/v1/count?key=" + strings.Repeat("k", 513), api.CodeInvalidKey, 400, "512"},
		{"GET", "/v1/count?key=a&window=0", api.CodeInvalidWindow, 400, "from 1s to 1000000000s"},
		{"GET", "/v1/count?key=a&window=1.5s", api.CodeInvalidWindow, 400, "from 1s to 1000000000s"},
		{"GET", "/v1/count?key=a&window=1000000001", api.CodeInvalidWindow, 400, "from 1s to 1000000000s"},
		{"GET", "/v1/count?key=a&window=soon", api.CodeInvalidWindow, 400, "90s, 5m"},
		{"GET", "/v1/count?key=a&window=-5m", api.CodeInvalidWindow, 400, "90s, 5m"},
		{"GET", "/v1/count?key=a&at=noon", api.CodeInvalidTime, 400, "RFC 3339"},
		{"GET", "/v1/count?key=a&at=1769860800000", api.CodeInvalidTime, 400, "milliseconds"},
		{"GET", "/v1/count?key=a&windw=1s", api.CodeUnknownParameter, 400, "windw"},
		{"GET", "/v1/count?key=a&key=b&key=c&key=d&key=e", api.CodeTooManyAnswers, 400, "at most 4"},
		{"GET", "/v1/count?key=%zz", api.CodeInvalidParameter, 400, "can't be decoded: invalid URL escape"},
		{"GET", "/v1/series", api.CodeMissingKey, 400, "key"},
		{"GET", "/v1/series?key=a&step=0", api.CodeInvalidWindow, 400, "step"},
		{"GET", "/v1/series?key=a&from=100&to=50", api.CodeInvalidRange, 400, ""},
		{"GET", "/v1/series?key=a&from=1&to=1000000&step=1s", api.CodeInvalidRange, 400, "10000"},
		{"GET", "/v1/top?n=0", api.CodeInvalidParameter, 400, "n: "},
		{"GET", "/v1/top?n=many", api.CodeInvalidParameter, 400, "n: "},
		{"GET", "/v1/keys?limit=5001", api.CodeInvalidParameter, 400, "limit: "},
		{"DELETE", "/v1/keys/*", api.CodeReservedKey, 400, "reserved"},
		{"DELETE", "/v1/keys/%ff", api.CodeInvalidKey, 400, "UTF-8"},
		{"DELETE", "/v1/keys/", api.CodeNotFound, 404, "/docs"},
		{"GET", "/v1/keys/a", api.CodeMethodNotAllowed, 405, "DELETE"},
		{"GET", "/v1/hits", api.CodeMethodNotAllowed, 405, "POST"},
		{"POST", "/v1/count?key=a", api.CodeMethodNotAllowed, 405, "GET"},
		{"PUT", "/healthz", api.CodeMethodNotAllowed, 405, "GET"},
		{"GET", "/nowhere", api.CodeNotFound, 404, "/nowhere"},
		{"GET", "/" + strings.Repeat("long", 500), api.CodeNotFound, 404, "longlonglon..."},
	} {
		r := a.do(c.method, c.path, "", "")
		a.wantProblem(r, c.code, c.status)
		if !strings.Contains(r.body, c.says) {
			t.Errorf("%s %.60s: %s does not say %q", c.method, c.path, r.body, c.says)
		}
		if c.status == 405 && !strings.Contains(r.header.Get("Allow"), c.says) {
			t.Errorf("%s %s: Allow %q", c.method, c.path, r.header.Get("Allow"))
		}
	}
}

func TestQuestionsToAClosedEngine(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	a.post("a")
	a.engine.Close()
	for _, path := range []string{"/v1/count?key=a", "/v1/series?key=a", "/v1/top", "/v1/keys", "/v1/stats"} {
		if r := a.get(path); r.status != 200 && r.status != 503 {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
