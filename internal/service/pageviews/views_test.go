package pageviews

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weir-counter/weir/internal/engine"
)

func TestPath(t *testing.T) {
	for given, want := range map[string]string{
		"": "/", "/": "/", "/about": "/about", "/about/": "/about", "//about": "/about", "/b/../about/.": "/about", "/../..": "/", "about": "/about",
		"/%61bout": "/about", "/caf%c3%a9": "/café", "/caf%C3%A9": "/café", "/a?b=1": "/a", "/a#b": "/a", "/a%3Fb": "/a%3Fb", "/a%3fb": "/a%3Fb",
		"https://example.com/x/?q": "/x", "https://example.com": "/", "/100%": "/100%25", "/a b": "/a%20b", "/a+b": "/a+b", "/a:b": "/a%3Ab",
		"/a\xff": "/a\uFFFD", "/\u2028": "/%E2%80%A8", "/" + strings.Repeat("é", 200): "/" + strings.Repeat("é", 99),
	} {
		if got := Path(given); got != want {
			t.Errorf("%q is %q, not %q", given, got, want)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/a/../b%2f%2e%2e?x#y", "http://h/%zz", "/%25%32%35", "/" + strings.Repeat("a/..%00", 60)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Path(text)
		switch {
		case !utf8.ValidString(got) || len(got) > maxName || !strings.HasPrefix(got, "/") || strings.ContainsAny(got, "?#: \x00\n"):
			t.Errorf("%q is %q", text, got)
		case len(got) > 1 && strings.HasSuffix(got, "/") || strings.Contains(got, "//") || strings.Contains(got+"/", "/../"):
			t.Errorf("%q is %q, which is not clean", text, got)
		case Path(got) != got:
			t.Errorf("%q is %q, and that is %q", text, got, Path(got))
		}
	})
}

func TestReferrers(t *testing.T) {
	for given, want := range map[string]string{
		"https://news.example/x?secret": "news.example", "https://www.News.example.:8080/": "news.example", "https://example.com/a": "", "https://blog.example.com": "",
		"https://www.example.com": "", "https://notexample.com": "notexample.com", "android-app://com.x": "", "javascript:alert(1)": "", "": "", "http://[::1]/": "..1",
		"http://a b/": "", "http://exa%6dple.com/": "", "http://" + strings.Repeat("a", 300) + ".example/": "",
	} {
		if got := referrerOf(given, "example.com"); got != want && !(given == "http://[::1]/" && got == "") {
			t.Errorf("%q is %q, not %q", given, got, want)
		}
	}
}

const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
	safari  = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Mobile/15E148 Safari/604.1"
)

func TestAgents(t *testing.T) {
	var a agents
	for text, want := range map[string]agent{
		firefox: {false, "firefox", "desktop"},
		safari:  {false, "safari", "phone"},
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0":                {false, "edge", "desktop"},
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36":                              {false, "chrome", "phone"},
		"Mozilla/5.0 (Linux; Android 14; SM-X910) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/29.0 Chrome/136.0.0.0 Safari/537.36":           {false, "samsung", "tablet"},
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 OPR/124.0.0.0":          {false, "opera", "desktop"},
		"Mozilla/5.0 (Linux; Android 12; CUBOT NOTE 20) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36":                  {false, "chrome", "phone"},
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) GSA/290.0 Mobile/15E148 Safari/604.1":         {false, "safari", "phone"},
		"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36":                               {false, "chrome", "desktop"},
		"Mozilla/5.0 (Linux; Android 15; Pixel 9 Build/BP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/142.0 Mobile Safari/537.36": {false, "chrome", "phone"},
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Vivaldi/7.6":                  {false, "vivaldi", "desktop"},
	} {
		if got := a.find(text); got != want {
			t.Errorf("%s is %+v, not %+v", text, got, want)
		}
	}
	for _, text := range []string{
		"", "curl/8.17.0", "Go-http-client/1.1", "python-requests/2.32", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Wget/1.25",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/142.0.0.0 Safari/537.36", "facebookexternalhit/1.1", "Twitterbot/1.0",
		"Mozilla/5.0 (compatible; GPTBot/1.3; +https://openai.com/gptbot)", "Mediapartners-Google", "FeedFetcher-Google; (+http://www.google.com/feedfetcher.html)", "AdsBot-Google (+http://www.google.com/adsbot.html)",
	} {
		if !a.find(text).bot {
			t.Errorf("%q is no bot", text)
		}
	}
	for i := range 2 * maxAgents {
		a.find(fmt.Sprintf("curl/%d", i))
	}
	if len(a.known) > maxAgents {
		t.Errorf("%d user agents are remembered", len(a.known))
	}
}

func TestParseSites(t *testing.T) {
	sites, err := ParseSites([]string{"Example.com", "other.org;proxies=2;badge", "localhost"})
	if err != nil || len(sites) != 3 || sites["example.com"].Proxies != -1 || sites["other.org"].Proxies != 2 || !sites["other.org"].Badge || sites["example.com"].Badge {
		t.Errorf("%v, %v", sites, err)
	}
	sites, err = ParseSites([]string{"a.example;query=utm_source+ref;badge"})
	if err != nil || strings.Join(sites["a.example"].Classes(), " ") != "path ref utm_source query_ref event browser device bot" || !sites["a.example"].Badge {
		t.Errorf("%+v, %v", sites["a.example"], err)
	}
	keys := sites["a.example"].keys(&View{Path: "/?ref=Hunt&utm_source=x&utm_term=y"}, agent{}, func(class, name string) string { return class + ":" + name })
	if got := strings.Join(keys[2:], " "); got != "utm_source:x query_ref:hunt" {
		t.Errorf("counted: %s", got)
	}
	for _, bad := range []string{"a.b;query=", "a.b;query=A", "a.b;query=a+b+c+d+e+f+g+h+i+j+k", "", "https://example.com", "example.com:80", "a b", "example.com/x", "example.com;proxies=11", "example.com;x", "*.example.com", "::1"} {
		if _, err := ParseSites([]string{bad}); err == nil {
			t.Errorf("%q is a site", bad)
		}
	}
}

// The list of names is bounded, and names that are there before a restart count as known.
func TestNames(t *testing.T) {
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Hit("s:path:/old"); err != nil {
		t.Fatal(err)
	}
	n := names{prefix: "s:path:", most: 3}
	yes, no := func() bool { return true }, func() bool { return false }
	for _, step := range []struct {
		name string
		may  func() bool
		want string
	}{
		{"/old", no, "/old"}, {"/new", no, "(other)"}, {"/new", yes, "/new"}, {"/new", no, "/new"}, {"/third", yes, "/third"}, {"/more", yes, "(other)"}, {"/old", no, "/old"},
	} {
		if got := n.key(e, step.name, step.may); got != "s:path:"+step.want {
			t.Errorf("%s is %s, not %s", step.name, got, step.want)
		}
	}
	n.read = n.read.Add(-2 * rereadAfter) // of a list that is full, keys that are gone give way
	if got := n.key(e, "/more", yes); got != "s:path:/more" {
		t.Errorf("after the others are gone: %s", got)
	}
}

// A client's limit holds for that client alone, and the memory of all is bounded.
func TestLimiter(t *testing.T) {
	l := newLimiter(3, 3, 24*time.Hour)
	for i := range 5 {
		if got := l.allow(1); got != (i < 3) {
			t.Errorf("request %d: %v", i, got)
		}
	}
	for i := range uint64(3 * maxLimited) {
		if !l.allow(1000 + i) {
			t.Fatal("another client is denied")
		}
	}
	if len(l.now) > maxLimited || len(l.before) > maxLimited {
		t.Errorf("%d and %d states", len(l.now), len(l.before))
	}
}

// The salt lasts for a day in UTC: then the same visitor is another one. Members of an IPv6 household are different visitors,
// and one client.
func TestHashes(t *testing.T) {
	c := New(nil, nil, nil)
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	site := &Site{Name: "example.com"}
	at := func(hours int, address, agent string) [2]uint64 {
		client, visitor := c.hashes(day.Add(time.Duration(hours)*time.Hour), site, &View{Client: netip.MustParseAddr(address), Agent: agent})
		return [2]uint64{client, visitor}
	}
	first := at(0, "192.0.2.1", firefox)
	if again := at(23, "192.0.2.1", firefox); again != first {
		t.Error("a visitor changes within the day")
	}
	if other := at(23, "192.0.2.1", safari); other[0] != first[0] || other[1] == first[1] {
		t.Error("another browser is the same visitor, or another client")
	}
	a, b := at(23, "2001:db8::1", firefox), at(23, "2001:db8::2", firefox)
	if a[0] != b[0] || a[1] == b[1] {
		t.Error("a household is not one client with two visitors")
	}
	if tomorrow := at(24, "192.0.2.1", firefox); tomorrow[0] == first[0] || tomorrow[1] == first[1] {
		t.Error("the salt lasts longer than a day")
	}
	if client, visitor := c.hashes(day, site, &View{}); client != 0 || visitor != 0 {
		t.Error("nobody is a visitor")
	}
}

// The log of a site has the keys of its views, and of nothing else.
func TestLog(t *testing.T) {
	l, err := NewLog("Example.com")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, status string
		view           View
		want           string
	}{
		{"GET", "200", View{Path: "/About/?utm_source=Mail&x=1", Referrer: "https://news.example/x", Agent: firefox}, "browser:firefox device:desktop ref:news.example utm_source:mail visitors path:/About"},
		{"GET", "304", View{Path: "/v1.2", Referrer: "https://example.com/", Agent: safari}, "browser:safari device:phone visitors path:/v1.2"},
		{"GET", "200", View{Path: "/", Agent: "Examplebot/1.0 (+https://example.com/bot)"}, "bot bot:crawler"},
		{"GET", "200", View{Path: "/", Agent: firefox, Prefetch: true}, "bot bot:prefetch"},
		{"GET", "200", View{Path: "/a.CSS?x", Agent: firefox}, ""},
		{"POST", "200", View{Path: "/", Agent: firefox}, ""},
		{"GET", "301", View{Path: "/", Agent: firefox}, ""},
		{"GET", "404", View{Path: "/", Agent: firefox}, ""},
		{"GET", "", View{Path: "/", Agent: firefox}, ""},
	} {
		got := strings.ReplaceAll(strings.Join(l.Keys(c.method, c.status, &c.view), " "), "example.com:", "")
		if got != c.want {
			t.Errorf("%s %s %+v: %s, not %s", c.method, c.status, c.view, got, c.want)
		}
	}
	if _, err := NewLog("https://example.com"); err == nil {
		t.Error("an address is taken for a host")
	}
}
