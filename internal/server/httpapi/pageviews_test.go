package httpapi

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/queries"
)

const browserAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"

// webAPI is a server that counts views of example.com.
func webAPI(t *testing.T) *testAPI {
	t.Helper()
	return newTestAPI(t, engine.Config{}, options{HTTP: Config{Web: []string{"example.com", "other.org;proxies=2"}}})
}

// view asks for /hit.gif as a browser at an address does.
func (a *testAPI) view(method, address string, query url.Values, headers ...string) reply {
	a.Helper()
	return a.do(method, imagePath+"?"+query.Encode(), "", "", append([]string{"User-Agent", browserAgent, "X-Forwarded-For", address}, headers...)...)
}

// wantCounts compares the counts of all keys with a prefix.
func (a *testAPI) wantCounts(want map[string]uint64) {
	a.Helper()
	top, err := a.engine.Top(start, time.Hour, engine.MaxList, "")
	if err != nil {
		a.Fatal(err)
	}
	got := map[string]uint64{}
	for _, found := range top {
		got[found.Key] = found.Estimate
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		a.Errorf("counts:\n%v\nnot\n%v", got, want)
	}
}

func (a *testAPI) wantVisitors(key string, want uint64) {
	a.Helper()
	set, _, err := a.engine.Distinct(start, key, time.Hour)
	if err != nil {
		a.Fatal(err)
	}
	if got := set.Count(start.Unix() - 3600).Estimate; got != want {
		a.Errorf("%s has %d visitors, not %d", key, got, want)
	}
}

// Views of browsers are counted under keys of their site, and visitors are distinguished.
func TestPageViews(t *testing.T) {
	a := webAPI(t)
	cross := []string{"Origin", "https://www.example.com", "Sec-Fetch-Site", "cross-site", "Referer", "https://www.example.com/about"}
	for visitor := range 10 {
		r := a.view(http.MethodPost, fmt.Sprintf("192.0.2.%d", visitor), url.Values{"site": {"example.com"}, "path": {"/about/?utm_source=Mail&id=7"}, "ref": {"https://news.example/x"}}, cross...)
		if r.status != http.StatusNoContent || r.header.Get("Access-Control-Allow-Origin") != "https://www.example.com" {
			t.Fatalf("%d %v %s", r.status, r.header, r.body)
		}
	}
	r := a.view(http.MethodGet, "192.0.2.1", url.Values{"site": {"example.com"}}, "Referer", "https://example.com/b/?x=1", "Sec-Fetch-Site", "cross-site")
	if r.status != http.StatusOK || r.header.Get("Content-Type") != "image/gif" || len(r.body) != 43 || r.header.Get("Cache-Control") != "no-store" || r.header.Get("Cross-Origin-Resource-Policy") != "cross-origin" {
		t.Fatalf("%d %v %q", r.status, r.header, r.body)
	}
	a.view(http.MethodPost, "192.0.2.1", url.Values{"site": {"example.com"}, "event": {" Signup"}})
	for _, private := range []string{"DNT", "Sec-GPC"} {
		if r := a.view(http.MethodGet, "192.0.2.1", url.Values{"site": {"example.com"}, "path": {"/private"}}, private, "1"); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", private, r.status, r.body)
		}
	}
	a.do(http.MethodGet, imagePath+"?site=example.com&path=/x", "", "", "User-Agent", "curl/8")
	a.view(http.MethodGet, "192.0.2.1", url.Values{"site": {"example.com"}, "path": {"/x"}}, "Sec-Purpose", "prefetch;prerender")
	a.wantCounts(map[string]uint64{
		"example.com:path:/about": 10, "example.com:path:/b": 1, "example.com:visitors": 11, "example.com:ref:news.example": 10, "example.com:utm_source:mail": 10,
		"example.com:browser:firefox": 11, "example.com:device:desktop": 11, "example.com:event:signup": 1,
		"example.com:bot": 2, "example.com:bot:crawler": 1, "example.com:bot:prefetch": 1,
	})
	a.wantVisitors("example.com:visitors", 10)
	a.wantVisitors("example.com:path:/b", 1)
}

// A page counts for its own site only, and views of other sites are refused with a reason.
func TestPageViewsOfOthers(t *testing.T) {
	a := webAPI(t)
	for _, c := range []struct {
		site, field, from string
		code              api.Code
	}{
		{"evil.example", "", "", "invalid_parameter"},
		{"", "", "", "invalid_parameter"},
		{"example.com", "Origin", "https://evil.example", "forbidden_origin"},
		{"example.com", "Origin", "https://notexample.com", "forbidden_origin"},
		{"example.com", "Origin", "null", "forbidden_origin"},
		{"example.com", "Referer", "https://other.org/", "forbidden_origin"},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
			headers := []string{}
			if c.field != "" {
				headers = []string{c.field, c.from}
			}
			r := a.view(method, "192.0.2.1", url.Values{"site": {c.site}, "path": {"/"}}, headers...)
			status := http.StatusForbidden
			if c.code == "invalid_parameter" {
				status = http.StatusBadRequest
			}
			a.wantProblem(r, c.code, status)
			if r.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%v may read the answer", c)
			}
		}
	}
	if r := a.view(http.MethodOptions, "192.0.2.1", url.Values{"site": {"example.com"}}, "Origin", "https://example.com"); r.status != http.StatusNoContent || r.header.Get("Access-Control-Allow-Origin") != "https://example.com" {
		t.Errorf("%d %v", r.status, r.header)
	}
	a.wantCounts(map[string]uint64{})
	if r := newTestAPI(t, engine.Config{}, options{}).get(imagePath + "?site=example.com&path=/"); !strings.Contains(r.body, "--web example.com") {
		t.Error(r.body)
	}
}

// One visitor can't inflate a page, and one address can't make keys without bound or use up those of others.
func TestPageViewLimits(t *testing.T) {
	a := webAPI(t)
	for range 30 {
		a.view(http.MethodPost, "192.0.2.1", url.Values{"site": {"example.com"}, "path": {"/"}})
	}
	for i := range 150 {
		a.view(http.MethodPost, "192.0.2.2", url.Values{"site": {"example.com"}, "path": {fmt.Sprint("/made-up/", i)}}, "User-Agent", browserAgent+fmt.Sprint(i))
	}
	a.view(http.MethodPost, "192.0.2.3", url.Values{"site": {"example.com"}, "path": {"/new"}})
	count := func(key string) uint64 {
		c, err := a.engine.CountAt(start, "example.com:"+key, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return c.Estimate
	}
	// Allowances grow while the test runs, by five a second at most.
	if n := count("path:/"); n < 10 || n > 29 {
		t.Errorf("one visitor counts %d views of a page", n)
	}
	if count("bot:rate") == 0 || count("bot:rate") != count("bot") || count("path:/new") != 1 {
		t.Errorf("filtered: %d of %d; new: %d", count("bot:rate"), count("bot"), count("path:/new"))
	}
	if keys, err := a.engine.Keys("example.com:path:/made-up/", "", 1000); err != nil || len(keys) > 120 {
		t.Errorf("one address made %d keys: %v", len(keys), err)
	}
	// The views of each path, with (other), and of the limits, are all there were.
	if n := count("visitors") + count("bot"); n != 181 {
		t.Errorf("%d views in all", n)
	}
}

// The client's address comes from the proxies that the site says, or from one that is near.
func TestPageViewProxies(t *testing.T) {
	a := webAPI(t)
	for i, forwarded := range []string{"203.0.113.1, 192.0.2.1", "203.0.113.2, 192.0.2.1"} {
		a.view(http.MethodPost, forwarded, url.Values{"site": {"example.com"}, "path": {"/"}})
		a.view(http.MethodPost, forwarded, url.Values{"site": {"other.org"}, "path": {"/"}})
		a.wantVisitors("example.com:visitors", 1) // the left part is the client's own invention
		a.wantVisitors("other.org:visitors", uint64(i+1))
	}
}

// Servers send views as one object or a list; if one is wrong, none counts.
func TestWebAPI(t *testing.T) {
	a := webAPI(t)
	view := fmt.Sprintf(`{"site":"example.com","path":"/a?x","user_agent":%q,"address":"2001:db8::1","referrer":"https://news.example"}`, browserAgent)
	for body, want := range map[string]string{
		view: `{"counted":1,"filtered":0}`,
		"[" + view + `,{"site":"example.com","path":"/a","user_agent":"curl/8"}]`: `{"counted":1,"filtered":1}`,
	} {
		if r := a.do(http.MethodPost, "/v1/web", "application/json", body); r.status != http.StatusOK || strings.TrimSpace(r.body) != want {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	want := map[string]uint64{
		"example.com:path:/a": 2, "example.com:visitors": 2, "example.com:ref:news.example": 2, "example.com:browser:firefox": 2, "example.com:device:desktop": 2,
		"example.com:bot": 1, "example.com:bot:crawler": 1,
	}
	a.wantCounts(want)
	a.wantVisitors("example.com:visitors", 1)
	for body, code := range map[string]api.Code{
		"[" + view + `,{"site":"evil.example","path":"/"}]`:   "invalid_parameter",
		"[" + view + `,{"site":"example.com","address":"x"}]`: "invalid_parameter",
		view + view:                    "invalid_json",
		`{"site":"example.com","pa`:    "invalid_json",
		`{"site":"example.com","p":1}`: "invalid_json",
	} {
		a.wantProblem(a.do(http.MethodPost, "/v1/web", "application/json", body), code, http.StatusBadRequest)
	}
	a.wantProblem(a.do(http.MethodPost, "/v1/web", "application/json", "[]"), "empty_body", http.StatusBadRequest)
	a.wantProblem(a.do(http.MethodPost, "/v1/web", "text/plain", view), "unsupported_type", http.StatusUnsupportedMediaType)
	a.wantCounts(want)
}

// With tokens, browsers count without one, and servers need one for the site.
func TestPageViewsLocked(t *testing.T) {
	a := newLockedAPI(t, map[string]string{"web": `permissions: [{role: ingest, keys: ["example.com:"]}]`, "not": `permissions: [{role: ingest, keys: ["x:"]}]`}, options{HTTP: Config{Web: []string{"example.com", "other.org"}}})
	if r := a.view(http.MethodPost, "192.0.2.1", url.Values{"site": {"example.com"}, "path": {"/"}}); r.status != http.StatusNoContent {
		t.Errorf("%d %s", r.status, r.body)
	}
	view := fmt.Sprintf(`{"site":"example.com","path":"/","user_agent":%q}`, browserAgent)
	if r := a.as("web", http.MethodPost, "/v1/web", view); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	a.wantProblem(a.as("web", http.MethodPost, "/v1/web", "["+view+","+strings.Replace(view, "example.com", "other.org", 1)+"]"), "forbidden", http.StatusForbidden)
	if c, err := a.engine.Count("example.com:path:/", time.Hour); err != nil || c.Estimate != 2 {
		t.Errorf("%d views, %v: a list with a view that is refused counts nothing", c.Estimate, err)
	}
	a.wantProblem(a.as("not", http.MethodPost, "/v1/web", view), "forbidden", http.StatusForbidden)
	a.wantProblem(a.do(http.MethodPost, "/v1/web", "application/json", view), "unauthorized", http.StatusUnauthorized)
}

// The script is small, may be loaded by any page, and needs no part of a Content-Security-Policy that is unsafe.
func TestScript(t *testing.T) {
	r := webAPI(t).do(http.MethodGet, scriptPath, "", "", "Sec-Fetch-Site", "cross-site", "Origin", "https://example.com")
	if r.status != http.StatusOK || len(r.body) >= 1536 || !strings.HasPrefix(r.header.Get("Content-Type"), "text/javascript") || r.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%d, %d bytes, %v", r.status, len(r.body), r.header)
	}
	for _, bad := range []string{"eval", "Function(", "cookie", "Storage", "innerHTML", "style"} {
		if strings.Contains(r.body, bad) {
			t.Errorf("the script has %s", bad)
		}
	}
}

// A badge shows the views of a page to everybody, if its site says so.
func TestBadge(t *testing.T) {
	a := newLockedAPI(t, map[string]string{"root": "permissions: [{role: read}]"}, options{HTTP: Config{Web: []string{"example.com;badge", "other.org"}}})
	if err := a.engine.HitN("example.com:path:/about", 12_345); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"example.com/about.svg?window=5m": "12.3k", "example.com/.svg?window=5m": "0", "EXAMPLE.com/a/%2E%2E/about.svg": "12.3k"} {
		r := a.do(http.MethodGet, badgePath+path, "", "", "Sec-Fetch-Site", "cross-site")
		if r.status != http.StatusOK || r.header.Get("Content-Type") != "image/svg+xml" || r.header.Get("Cache-Control") != "public, max-age=300" || !strings.Contains(r.body, ">"+want+"</text>") && !strings.Contains(r.body, "≥"+want+"</text>") {
			t.Errorf("%s: %d %v %s", path, r.status, r.header, r.body)
		}
		if err := xml.Unmarshal([]byte(r.body), new(struct{ XMLName xml.Name })); err != nil {
			t.Errorf("%s: %v", r.body, err)
		}
	}
	for _, path := range []string{"other.org/about.svg", "evil.example/.svg", "example.com/about.png"} {
		a.wantProblem(a.get(badgePath+path), "not_found", http.StatusNotFound)
	}
	a.wantProblem(a.get(badgePath+"example.com/about.svg?window=x"), "invalid_window", http.StatusBadRequest)
	upper := uint64(2_000_000)
	for want, b := range map[string]api.Bounds{
		"999": {Lower: 999, Estimate: 999, Upper: &upper, Exact: true}, "1k": {Estimate: 1000, Upper: &upper, Exact: true}, "≈1M": {Estimate: 999_950, Upper: &upper}, "≥1.2G": {Lower: 1_200_000_000, Estimate: 1_300_000_000},
	} {
		if got := shortCount(b); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

// The page of a site has what was counted under its keys in the period.
func TestSitePage(t *testing.T) {
	a := webAPI(t)
	for visitor := range 3 {
		for _, path := range []string{"/", "/about"} {
			a.view(http.MethodPost, fmt.Sprintf("192.0.2.%d", visitor), url.Values{"site": {"example.com"}, "path": {path}, "ref": {"https://news.example/x"}})
		}
	}
	a.view(http.MethodPost, "192.0.2.1", url.Values{"site": {"example.com"}, "event": {"signup"}})
	a.view(http.MethodPost, "192.0.2.1", url.Values{"site": {"example.com"}, "path": {"/"}}, "User-Agent", "curl/8")
	a.view(http.MethodPost, "192.0.2.1", url.Values{"site": {"other.org"}, "path": {"/secret"}})
	if _, err := a.engine.HitAt(start.Add(-2*24*time.Hour), "example.com:visitors", 5); err != nil {
		t.Fatal(err)
	}
	for period, views := range map[string]uint64{"today": 6, "7d": 11, "30d": 11, "2026-01-29": 5, "2026-01-29..2026-01-30": 5, "2026-01-31": 6, "2025-12-31..2026-02-28": 11} {
		var v api.SiteView
		a.getInto("/v1/views/site?site=example.com&tz=Europe/Berlin&period="+period, &v)
		sum := uint64(0)
		for _, point := range v.Line {
			sum += point.Estimate
		}
		if v.Views.Estimate != views || sum != views || v.Source != "windows" || v.Now.Estimate != 3 {
			t.Errorf("%q: %d views, %d in the line, %s, %v now", period, v.Views.Estimate, sum, v.Source, v.Now)
		}
		if known := period != "2025-12-31..2026-02-28"; known != (v.Visitors != nil) || known && (v.Visitors.Estimate == 3) != (views != 5) {
			t.Errorf("%q: %v visitors", period, v.Visitors)
		}
		lists := ""
		for _, list := range v.Lists {
			for _, name := range list.Names {
				lists += fmt.Sprint(list.Class, ":", name.Key, " ", name.Estimate, ", ")
			}
		}
		want := "path:/ 3, path:/about 3, ref:news.example 6, event:signup 1, browser:firefox 6, device:desktop 6, bot:crawler 1, "
		if v.Now == nil || views == 5 && lists != "" || views != 5 && (lists != want || v.Filtered.Estimate != 1) {
			t.Errorf("%q: %s, %d filtered", period, lists, v.Filtered.Estimate)
		}
	}
	for _, bad := range []string{"x", "8d", "2026-02-30", "2026-01-31..2026-01-30", "2026-02-01", "..", "1969-01-01"} {
		a.wantProblem(a.get("/v1/views/site?site=example.com&period="+bad), "invalid_parameter", http.StatusBadRequest)
	}
	a.wantProblem(a.get("/v1/views/site?site=evil.example"), "invalid_parameter", http.StatusBadRequest)
	var v api.SiteView
	if a.getInto("/v1/views/site", &v); fmt.Sprint(v.Sites) != "[example.com other.org]" {
		t.Errorf("sites: %v", v.Sites)
	}
}

// Everybody may read the page of a site that says so, and nothing else: no other site, key, period or route.
func TestPublicSite(t *testing.T) {
	a := newLockedAPI(t, map[string]string{"own": `permissions: [{role: read, keys: ["other.org:"]}]`, "part": `permissions: [{role: read, keys: ["other.org:path:"]}]`},
		options{HTTP: Config{Web: []string{"example.com;public", "other.org;badge"}}})
	for _, key := range []string{"example.com:visitors", "example.com:path:/", "example.com:secret", "other.org:visitors"} {
		if err := a.engine.Hit(key); err != nil {
			t.Fatal(err)
		}
	}
	const page = "/v1/views/site?site=example.com"
	for _, period := range []string{"", "&period=7d", "&period=30d&tz=Europe/Berlin"} {
		r := a.get(page + period)
		if r.status != http.StatusOK || !strings.Contains(r.body, `"public":true`) || !strings.Contains(r.body, `"tz":"UTC"`) || strings.Contains(r.body, "secret") || strings.Contains(r.body, "other") {
			t.Errorf("%q: %d %s", period, r.status, r.body)
		}
	}
	for i := range 100 { // a crowd costs no more than one reader, whatever lists it asks for
		list, period := strings.Fields("path ref utm_source utm_medium utm_campaign utm_term utm_content event browser device bot")[i%11], []string{"today", "7d", "30d"}[i%3]
		if r := a.get(page + "&more=" + list + "&period=" + period); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	for _, more := range []string{"&period=2026-01-01", "&period=2026-01-01..2026-01-31"} {
		a.wantProblem(a.get(page+more), "forbidden", http.StatusForbidden)
	}
	for pattern, need := range a.server.needs {
		method, path, _ := strings.Cut(pattern, " ")
		if need.open || need.hot && method != http.MethodGet || strings.Contains(path, "{") || pattern == sitePattern || method == "" || path == "" {
			continue
		}
		for _, query := range []string{"?site=example.com", "?site=example.com&key=example.com:visitors&prefix=example.com:"} {
			if r := a.do(method, path+query, "", ""); r.status != http.StatusUnauthorized {
				t.Errorf("%s: %d %s", pattern, r.status, r.body)
			}
		}
	}
	for _, other := range []string{"/v1/views/site", "/v1/views/site?site=other.org", "/v1/views/site?site=evil.example", "/v1/views/site?site=other.org&site=example.com", "/v1/views/site?site=EXAMPLE.com%00"} {
		a.wantProblem(a.get(other), "unauthorized", http.StatusUnauthorized)
	}
	if r := a.as("own", http.MethodGet, "/v1/views/site?site=other.org", ""); r.status != http.StatusOK || strings.Contains(r.body, `"public"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	a.wantProblem(a.as("part", http.MethodGet, "/v1/views/site?site=other.org", ""), "forbidden", http.StatusForbidden)
	for _, other := range []string{"own", "part"} { // who may not read the site is everybody
		if r := a.as(other, http.MethodGet, page+"&more=path", ""); r.status != http.StatusOK || !strings.Contains(r.body, `"public":true`) {
			t.Errorf("%d %s", r.status, r.body)
		}
		a.wantProblem(a.as(other, http.MethodGet, page+"&period=2026-01-01", ""), "forbidden", http.StatusForbidden)
	}
	if r := a.as("own", http.MethodGet, "/v1/views/site", ""); !strings.Contains(r.body, `["other.org"]`) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

type regions = queries.Regions

// oneRegion is a region without others.
type oneRegion struct{ regions }

func (oneRegion) Region() string                                { return "eu-secret" }
func (oneRegion) Regions() []api.Region                         { return nil }
func (oneRegion) Read(func(string, *engine.Engine) error) error { return nil }
func (oneRegion) Alarms() []api.Alarm                           { return nil }

// The page that everybody may read does not say what nodes and regions there are, whatever happens to them.
func TestPublicSiteNamesNoNodes(t *testing.T) {
	e, err := engine.New(engine.Config{Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	answers := &elsewhere{engine: e}
	a := newLockedAPI(t, map[string]string{"own": `permissions: [{role: read, keys: ["example.com:"]}]`}, options{
		HTTP: Config{Web: []string{"example.com;public"}}, Backend: service.Backend{Cluster: fixedCluster{now: start}, Answers: answers, Regions: oneRegion{}},
	})
	const page = "/v1/views/site?site=example.com"
	secret := func(text string) bool {
		return strings.Contains(text, "eu-secret") || strings.Contains(text, "n2") || strings.Contains(text, `"far"`)
	}
	if r := a.as("own", http.MethodGet, page, ""); !secret(r.body) {
		t.Errorf("a reader with an identity does not see who is late: %d %s", r.status, r.body)
	}
	if r := a.get(page); r.status != http.StatusOK || secret(r.body) || !strings.Contains(r.body, `"late":[{"node":"a node"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	const other = page + "&period=7d" // which nobody has asked for
	answers.fail = &api.Error{Code: api.CodeNotHeld, Missing: []string{"n2"}, Message: "n2 does not answer"}
	if r := a.as("own", http.MethodGet, other, ""); !secret(r.body) {
		t.Errorf("a reader with an identity does not see who fails: %d %s", r.status, r.body)
	}
	if r := a.get(other); r.status != http.StatusServiceUnavailable || secret(r.body) || !strings.Contains(r.body, "load it again") {
		t.Errorf("%d %s", r.status, r.body)
	}
}
