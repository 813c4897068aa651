package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
)

// GET answers as POST does.
func TestAllowQuery(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	for _, test := range []struct{ query, body string }{
		{"key=a&limit=2&per=1m", `{"key":"b","limit":{"n":2,"per":"1m"}}`},
		{"key=a&limit=2&per=60", `{"key":"b","limit":{"n":2,"per":"1m"}}`},
		{"key=a&limit=2&per=1m", `{"key":"b","limit":{"n":2,"per":"1m"}}`},
		{"key=a&limit=9&per=1m&burst=3&algorithm=gcra&name=own&n=2", `{"key":"b","limit":{"n":9,"per":"1m","burst":3,"algorithm":"gcra","name":"own"},"n":2}`},
		{"key=a&limit=9&per=1m&burst=3&algorithm=gcra&name=own&n=2", `{"key":"b","limit":{"n":9,"per":"1m","burst":3,"algorithm":"gcra","name":"own"},"n":2}`},
		{"key=a&limit=2&per=1h&peek=true", `{"key":"b","limit":{"n":2,"per":"1h"},"peek":true}`},
		{"key=a", `{"key":"b"}`},
	} {
		get, post := a.get("/v1/allow?"+test.query), a.allow(test.body)
		if get.status != post.status || withoutDenial(get.body) != strings.ReplaceAll(withoutDenial(post.body), `"key":"b"`, `"key":"a"`) || get.header.Get("Retry-After") != post.header.Get("Retry-After") ||
			get.header.Get("RateLimit") != post.header.Get("RateLimit") || get.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s %v\nbut %d %s %v", test.query, get.status, get.body, get.header, post.status, post.body, post.header)
		}
	}
	if r := a.get("/v1/allow?key=c&key=d&key=c&limit=2&per=1m"); r.status != 200 || strings.Count(r.body, `"remaining":`) != 3 {
		t.Errorf("several keys: %d %s", r.status, r.body)
	}
	if r := a.get("/v1/allow?key=d&key=c&limit=2&per=1m"); r.status != 429 || !strings.Contains(r.body, `"key":"d","mode":"enforce","allowed":true`) {
		t.Errorf("several keys, one used up: %d %s", r.status, r.body)
	}
	a.wantProblem(a.get("/v1/allow?key="+strings.Repeat("k", 513)), api.CodeInvalidKey, http.StatusBadRequest)
	a.wantProblem(a.get("/v1/allow?key=a&peek=perhaps"), api.CodeInvalidParameter, http.StatusBadRequest)
}

// Costs by their names, as POST has them.
func TestAllowQueryCosts(t *testing.T) {
	a, _ := newLimitAPI(t, "limits: [{name: tpm, keys: \"llm:{team}\", limit: 9, per: 1m, cost: tokens}]\n")
	if r := a.get("/v1/allow?key=llm:7&cost=tokens=5&cost=calls=1"); r.status != 200 || !strings.Contains(r.body, `"remaining":4`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, query := range []string{"", "&cost=tokens", "&cost=tokens=-1", "&cost==1", "&cost=tokens=1&cost=tokens=1", strings.Repeat("&cost=tokens=1", 9)} {
		a.wantProblem(a.get("/v1/allow?key=llm:7"+query), api.CodeInvalidCount, http.StatusBadRequest)
	}
}

// A browser that does not say for which page it asks takes nothing.
func TestAllowQueryAndPages(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{HTTP: Config{AllowOrigins: []string{"https://dash.example.com"}}})
	const listener, browser = "GET /v1/allow?key=a&limit=1&per=1m&peek=true", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	for name, headers := range map[string][]string{
		"typed by the user": {"User-Agent", browser, "Sec-Fetch-Site", "none"},
		"its own page":      {"User-Agent", browser, "Sec-Fetch-Site", "same-origin"},
		"a page that may":   {"User-Agent", browser, "Origin", "https://dash.example.com"},
		"curl":              {"User-Agent", "curl/8.0"},
	} {
		if r := a.from(listener, "", headers...); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	a.wantProblem(a.from(listener, "", "User-Agent", browser), api.CodeForbiddenOrigin, http.StatusForbidden)
	a.wantProblem(a.from(listener, "", "User-Agent", browser, "Referer", "http://evil.example/"), api.CodeForbiddenOrigin, http.StatusForbidden)
	if r := a.from("GET /v1/count?key=a", "", "User-Agent", browser); r.status != http.StatusOK {
		t.Errorf("a question: %d %s", r.status, r.body)
	}
}
