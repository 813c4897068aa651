package httpapi

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
)

// ofProxy asks as a proxy does, for a client.
func (a *testAPI) ofProxy(method, query, client string, headers ...string) reply {
	a.Helper()
	return a.do(method, "/v1/forward-auth?"+query, "", "", append([]string{"X-Forwarded-Uri", "/some/path?x=1", "X-Forwarded-For", client, "X-Forwarded-Method", method}, headers...)...)
}

func TestForwardAuth(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	const two = "key=ip:(client)&limit=2&per=1m"
	for _, method := range []string{"GET", "HEAD"} {
		r := a.ofProxy(method, two, "192.0.2.7")
		if r.status != http.StatusOK || r.body != "" || r.header.Get("RateLimit") == "" || r.header.Get("RateLimit-Policy") != `"inline/window/1m";q=2;w=60` || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %q %v", method, r.status, r.body, r.header)
		}
	}
	for method, status := range map[string]int{"GET": 429, "HEAD": 429, "POST": 429, "PUT": 429, "DELETE": 429, "OPTIONS": 429, "PATCH": 429, "PROPFIND": 429} {
		r := a.ofProxy(method, two, "192.0.2.7")
		if r.status != status || r.header.Get("Retry-After") != "60" || r.header.Get("RateLimit") != `"inline/window/1m";r=0;t=60` {
			t.Errorf("%s: %d %v", method, r.status, r.header)
		}
		if want := "Too many requests: try again in 60 s.\n"; method != "HEAD" && r.body != want {
			t.Errorf("%s: %q", method, r.body)
		}
	}
	if r := a.ofProxy("GET", two+"&denied=403", "192.0.2.7"); r.status != http.StatusForbidden || r.header.Get("Retry-After") != "60" {
		t.Errorf("for nginx: %d %v", r.status, r.header)
	}
	if r := a.ofProxy("GET", two, "192.0.2.7, 192.0.2.8"); r.status != http.StatusOK {
		t.Errorf("another client: %d", r.status)
	}
	if r := a.ofProxy("GET", two, "192.0.2.99, 192.0.2.7"); r.status != 429 {
		t.Errorf("a client that names another address: %d", r.status)
	}
	if r := a.ofProxy("GET", two+"&key=path:(path:1)&name=both", "192.0.2.7"); r.status != http.StatusOK {
		t.Errorf("two keys: %d %s", r.status, r.body)
	}
}

// A body is not waited for, and the answer is there before it.
func TestForwardAuthReadsNoBody(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	until := make(chan struct{})
	defer close(until)
	req, err := http.NewRequest(http.MethodGet, a.url+"/v1/forward-auth?key=a&limit=1&per=1m", neverRead{until})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 1000
	req.Header.Set("X-Forwarded-Uri", "/")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("%d, close %v", resp.StatusCode, resp.Close)
	}
}

// Its parameters name limits as the body of a decision does.
func TestForwardAuthLimits(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	for _, test := range []struct{ query, body string }{
		{"key=a&limit=2&per=1m", `{"key":"b","limit":{"n":2,"per":"1m"}}`},
		{"key=a&limit=2&per=60", `{"key":"b","limit":{"n":2,"per":"1m"}}`},
		{"key=a&limit=2&per=1m", `{"key":"b","limit":{"n":2,"per":"1m"}}`},
		{"key=a&limit=9&per=1m&burst=3&algorithm=gcra&name=own&n=2", `{"key":"b","limit":{"n":9,"per":"1m","burst":3,"algorithm":"gcra","name":"own"},"n":2}`},
		{"key=a&limit=9&per=1m&burst=3&algorithm=gcra&name=own&n=2", `{"key":"b","limit":{"n":9,"per":"1m","burst":3,"algorithm":"gcra","name":"own"},"n":2}`},
		{"key=a", `{"key":"b"}`},
	} {
		proxy, post := a.ofProxy("GET", test.query, "192.0.2.7"), a.allow(test.body)
		if proxy.status != post.status || proxy.header.Get("Retry-After") != post.header.Get("Retry-After") ||
			proxy.header.Get("RateLimit") != post.header.Get("RateLimit") || proxy.header.Get("RateLimit-Policy") != post.header.Get("RateLimit-Policy") {
			t.Errorf("%s: %d %v\nbut %d %v", test.query, proxy.status, proxy.header, post.status, post.header)
		}
	}
	if r := a.ofProxy("GET", "key=c&key=d&key=c&limit=2&per=1m", "192.0.2.7"); r.status != http.StatusOK {
		t.Errorf("several keys: %d", r.status)
	}
	if r := a.ofProxy("GET", "key=d&key=c&limit=2&per=1m", "192.0.2.7"); r.status != http.StatusTooManyRequests || !strings.Contains(r.header.Get("RateLimit"), "r=1") {
		t.Errorf("several keys, one used up: %d %v", r.status, r.header)
	}
}

// neverRead is a body that does not come before the end.
type neverRead struct{ until chan struct{} }

func (b neverRead) Read([]byte) (int, error) {
	<-b.until
	return 0, io.EOF
}

// What is wrong is a fault of the proxy's settings, and the client's browser is asked for nothing.
func TestForwardAuthRefuses(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	for query, code := range map[string]api.Code{
		"":                                    api.CodeMissingKey,
		"key=":                                api.CodeInvalidParameter,
		"key=ip:(ip)&limit=2&per=1m":          api.CodeInvalidKey,
		"key=a&limit=nobody":                  api.CodeUnknownLimit,
		"key=a&limit=x&per=1m":                api.CodeInvalidCount,
		"key=a&limit=0&per=1m":                api.CodeInvalidCount,
		"key=a&per=1m":                        api.CodeInvalidCount,
		"key=a&limit=1&per=x":                 api.CodeInvalidLimit,
		"key=a&limit=1&per=1000d":             api.CodeInvalidLimit,
		"key=a&limit=1&per=1m&algorithm=x":    api.CodeInvalidLimit,
		"key=a&burst=2":                       api.CodeInvalidLimit,
		"key=a&limit=1&per=1m&n=2":            api.CodeInvalidCount,
		"key=a&limit=1&limit=2&per=1m":        api.CodeInvalidParameter,
		"key=a&denied=200":                    api.CodeInvalidParameter,
		"key=a&hops=0":                        api.CodeInvalidParameter,
		"key=a&hops=11":                       api.CodeInvalidParameter,
		"key=a&peek=true":                     api.CodeUnknownParameter,
		"key=%zz":                             api.CodeInvalidParameter,
		strings.Repeat("&key=a", 9)[1:]:       api.CodeInvalidCount,
		"key=ip:(client)&limit=1&per=1m&no=1": api.CodeUnknownParameter,
	} {
		a.wantProblem(a.ofProxy("GET", query, "192.0.2.7"), code, http.StatusInternalServerError)
	}
	a.wantProblem(a.ofProxy("GET", "key=(client)&limit=1&per=1m", "unknown"), api.CodeInvalidParameter, http.StatusInternalServerError)
	a.wantProblem(a.get("/v1/forward-auth?key=a&limit=1&per=1m"), api.CodeInvalidParameter, http.StatusInternalServerError)
}

// A proxy has a token of its own; Authorization is its client's.
func TestForwardAuthToken(t *testing.T) {
	a := newLockedAPI(t, map[string]string{
		"proxy": `permissions: [{role: decide, keys: ["ip:"]}], ceilings: {requests_per_second: 1}`,
		"user":  `permissions: [{role: decide}]`,
	}, options{})
	const one = "key=ip:(client)&limit=100&per=1m"
	r := a.ofProxy("GET", one, "192.0.2.7", "Authorization", "Bearer "+tokenOf("user"))
	a.wantProblem(r, api.CodeUnauthorized, http.StatusInternalServerError)
	r = a.ofProxy("GET", one, "192.0.2.7", "Authorization", "Bearer of the client", "X-Weir-Token", tokenOf("proxy"))
	if r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	r = a.ofProxy("GET", one, "192.0.2.7", "X-Weir-Token", tokenOf("proxy"))
	a.wantProblem(r, api.CodeCeiling, http.StatusServiceUnavailable)
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r = a.do(http.MethodPost, "/v1/allow", "application/json", `{"key":"ip:1"}`, "X-Weir-Token", tokenOf("user"))
	a.wantProblem(r, api.CodeUnauthorized, http.StatusUnauthorized)
}

// A proxy passes on what its client's browser says of the page that asks. A page can't pass for a proxy:
// its browser asks before it sends the field, and what it may send by itself has not got it.
func TestForwardAuthAndPages(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{HTTP: Config{AllowOrigins: []string{"https://dash.example.com"}}})
	const one = "key=ip:(client)&limit=100&per=1m"
	for name, headers := range map[string][]string{
		"another site's page": {"Origin", "https://app.example.com", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"},
		"a link":              {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
		"a plain browser":     {"User-Agent", "Mozilla/5.0"},
	} {
		if r := a.ofProxy("GET", one, "192.0.2.7", headers...); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	may := []string{"Origin", "https://dash.example.com", "Sec-Fetch-Site", "cross-site", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "x-forwarded-uri"}
	if r := a.from("OPTIONS /v1/forward-auth", "", may...); strings.Contains(strings.ToLower(r.header.Get("Access-Control-Allow-Headers")), "forwarded") {
		t.Error("a page may say that it is a proxy")
	}
	may[1] = "https://evil.example"
	a.wantProblem(a.from("OPTIONS /v1/forward-auth", "", may...), api.CodeForbiddenOrigin, http.StatusForbidden)
	a.wantProblem(a.from("GET /v1/forward-auth?"+one, "evil.example", "X-Forwarded-Uri", "/"), api.CodeForbiddenOrigin, http.StatusForbidden)
}
