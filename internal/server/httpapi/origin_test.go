package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
)

// listeners are a request of every route.
var listeners = []string{
	"GET /healthz", "GET /readyz", "GET /metrics", "GET /docs", "GET /docs/page.js", "GET /openapi.json", "GET /nowhere",
	"POST /v1/hits", "POST /v1/allow", "GET /v1/forward-auth?key=a", "GET /v1/limits", "GET /v1/limits/login/keys", "GET /v1/count?key=a", "GET /v1/rate?key=a",
	"GET /v1/series?key=a", "GET /v1/top", "GET /v1/keys", "DELETE /v1/keys/a", "DELETE /v1/limits/inline", "DELETE /v1/limits/login/keys/a", "POST /v1/grants?limit=login&key=a&n=1&for=1h", "POST /v1/refund", "POST /v1/reserve", "POST /v1/settle", "GET /v1/stats", "GET /v1/cluster",
	"GET /", "GET /web/app.js", "GET /v1/views/overview", "GET /v1/views/key?key=a", "GET /v1/views/limits", "GET /v1/views/log", "GET /v1/views/nodes",
	"DELETE /v1/cluster/nodes/n2", "GET /v1/backup", "OPTIONS /v1/hits",
}

// from sends a request of a listener with a Host and other fields.
func (a *testAPI) from(listener, host string, headers ...string) reply {
	a.Helper()
	method, path, _ := strings.Cut(listener, " ")
	body := ""
	if method == http.MethodPost {
		body = `{"key":"a","limit":{"n":1,"per":"1m"}}`
	}
	req, err := http.NewRequest(method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Host = host
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return a.send(req)
}

// What a browser adds to what a page of another site sends is refused on every route,
// and so is every name that such a page could have resolve to this machine.
func TestForeignPagesAreRefused(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{HTTP: Config{Addr: "weir.example.com:8080", AllowHosts: []string{"*.corp.example.com", "Other.example.org"}, AllowOrigins: []string{"http://localhost:3000"}}})
	a.post("a 3")
	for _, listener := range listeners {
		for name, try := range map[string]struct {
			host    string
			headers []string
		}{
			"rebound name":        {host: "evil.example"},
			"rebound name, port":  {host: "evil.example:8080"},
			"like an address":     {host: "127.0.0.1.evil.example"},
			"mDNS":                {host: "evil.local:8080"},
			"cross-site":          {headers: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}},
			"another port":        {headers: []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"}},
			"origin":              {headers: []string{"Origin", "https://evil.example"}},
			"origin of a sandbox": {headers: []string{"Origin", "null"}},
			"origin by port":      {headers: []string{"Origin", "http://127.0.0.1:1"}},
			"rebound with origin": {"evil.example", []string{"Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"}},
		} {
			r := a.from(listener, try.host, try.headers...)
			if r.status != http.StatusForbidden || !strings.Contains(r.body, `"code":"forbidden_origin"`) || !strings.Contains(r.body, "--allow-") {
				t.Errorf("%s, %s: %d %s", listener, name, r.status, r.body)
			}
			if allow := r.header.Get("Access-Control-Allow-Origin"); allow != "" {
				t.Errorf("%s, %s: Access-Control-Allow-Origin %s", listener, name, allow)
			}
		}
	}
	a.wantCount("a", 3)
	if !strings.Contains(a.get("/metrics").body, "weir_http_forbidden_requests_total 360\n") {
		t.Error("they are not counted")
	}
	for _, host := range []string{"", "127.0.0.1", "10.1.2.3:8080", "[::1]:8080", "[fd00::1]", "localhost:8080", "weir", "a.localhost", "weir.prod.internal:80", "weir.example.com", "WEIR.example.com.:8080", "a.b.corp.example.com", "other.example.org"} {
		if r := a.from("GET /v1/count?key=a", host); r.status != http.StatusOK {
			t.Errorf("Host %q: %d %s", host, r.status, r.body)
		}
	}
	own := strings.TrimPrefix(a.url, "http://")
	for name, headers := range map[string][]string{
		"its own page":         {"Origin", a.url, "Sec-Fetch-Site", "same-origin"},
		"behind a TLS proxy":   {"Origin", "https://" + own, "Sec-Fetch-Site", "same-origin"},
		"typed by the user":    {"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"},
		"a page that may":      {"Origin", "http://localhost:3000", "Sec-Fetch-Site", "same-site"},
		"a page that may, too": {"Origin", "http://LOCALHOST:3000"},
	} {
		if r := a.from("POST /v1/hits", "", headers...); r.status == http.StatusForbidden {
			t.Errorf("%s: %s", name, r.body)
		}
	}
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	if r := a.from("GET /docs", "", link...); r.status != http.StatusOK {
		t.Errorf("a link to the docs: %d %s", r.status, r.body)
	}
	a.wantProblem(a.from("GET /v1/backup", "", link...), api.CodeForbiddenOrigin, http.StatusForbidden)
}

// A page of an allowed origin may ask, and read the answer.
func TestAllowedOrigin(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{HTTP: Config{AllowOrigins: []string{"https://dash.example.com"}}})
	from := []string{"Origin", "https://dash.example.com", "Sec-Fetch-Site", "cross-site"}
	for _, listener := range listeners {
		if r := a.from(listener, "", from...); r.status == http.StatusForbidden || r.header.Get("Access-Control-Allow-Origin") != from[1] || r.header.Get("Vary") != "Origin" {
			t.Errorf("%s: %d %v", listener, r.status, r.header)
		}
		_, path, _ := strings.Cut(listener, " ")
		r := a.from("OPTIONS "+path, "", append(from, "Access-Control-Request-Method", "DELETE", "Access-Control-Request-Headers", "content-type")...)
		if r.status != http.StatusNoContent || r.header.Get("Access-Control-Allow-Methods") != "GET, POST, PUT, DELETE" || r.header.Get("Access-Control-Allow-Headers") != "Authorization, Content-Type, Content-Encoding, Idempotency-Key, If-Match, If-None-Match" {
			t.Errorf("%s: asked first: %d %v", listener, r.status, r.header)
		}
	}
}

// While the server opens its data directory, its address is as careful.
func TestOpeningRefusesForeignPages(t *testing.T) {
	o, err := Open(Config{Addr: "127.0.0.1:0"}, func() Phase { return Phase{"loading", "data"} })
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	a := newTestAPI(t, engine.Config{}, options{})
	a.url = "http://" + o.Addr()
	a.wantProblem(a.from("GET /healthz", "evil.example"), api.CodeForbiddenOrigin, http.StatusForbidden)
}

// A page can't make a browser ask a limit: a form and a text need no leave of the
// server, JSON does.
func TestAllowTakesJSONAlone(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	const body = `{"key":"a","limit":{"n":1,"per":"1m"}}`
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/x-ndjson", "multipart/form-data"} {
		r := a.do(http.MethodPost, "/v1/allow", contentType, body)
		a.wantProblem(r, api.CodeUnsupportedType, http.StatusUnsupportedMediaType)
		if r.header.Get("Accept-Post") != "application/json" {
			t.Errorf("%q: Accept-Post %q", contentType, r.header.Get("Accept-Post"))
		}
	}
	if r := a.do(http.MethodPost, "/v1/allow", "application/json; charset=utf-8", body); r.status != http.StatusOK {
		t.Errorf("JSON: %d %s", r.status, r.body)
	}
}
