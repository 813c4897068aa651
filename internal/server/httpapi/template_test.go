package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/request"
)

// forwarded is a request with fields, name and value in turn.
func forwarded(hops int, fields ...string) *ForwardedRequest {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &ForwardedRequest{Header: h, Hops: hops}
}

func TestForwardedKeys(t *testing.T) {
	t.Parallel()
	const xff, uri = "X-Forwarded-For", "X-Forwarded-Uri"
	long := strings.Repeat("é", 400)
	for _, test := range []struct {
		template string
		request  *ForwardedRequest
		want     string
	}{
		{"all", forwarded(1), "all"},
		{"ip:(client)", forwarded(1, xff, "192.0.2.7"), "ip:192.0.2.7"},
		{"ip:{client}", forwarded(1, xff, "192.0.2.7"), "ip:192.0.2.7"},
		{"ip:(client)", forwarded(1, xff, "6.6.6.6, 192.0.2.7"), "ip:192.0.2.7"},             // the client's own words stand before
		{"ip:(client)", forwarded(1, xff, "6.6.6.6", xff, "192.0.2.7:4711"), "ip:192.0.2.7"}, // HAProxy adds a line
		{"ip:(client)", forwarded(2, xff, "6.6.6.6, 192.0.2.7,10.0.0.1"), "ip:192.0.2.7"},
		{"ip:(client)", forwarded(2, xff, "6.6.6.6", xff, "192.0.2.7", xff, "10.0.0.1"), "ip:192.0.2.7"},
		{"ip:(client)", forwarded(3, xff, "192.0.2.7,10.0.0.1"), "ip:192.0.2.7"}, // it came past one of the proxies
		{"ip:(client)", forwarded(2, xff, "nonsense, 192.0.2.7"), "ip:192.0.2.7"},
		{"ip:(client)", forwarded(1, xff, "2001:db8:1:2:3:4:5:6"), "ip:2001:db8:1:2::/64"},
		{"ip:(client)", forwarded(1, xff, "[2001:db8:1:2:3:4:5:6]:4711"), "ip:2001:db8:1:2::/64"},
		{"ip:(client)", forwarded(1, xff, "[2001:db8:1:2::9]"), "ip:2001:db8:1:2::/64"},
		{"ip:(client)", forwarded(1, xff, "::ffff:192.0.2.7"), "ip:192.0.2.7"},
		{"(host)", forwarded(1, "X-Forwarded-Host", "API.example.com.:8443"), "api.example.com"},
		{"(host)", forwarded(1, "X-Forwarded-Host", "[2001:db8::1]:80"), "[2001%3Adb8%3A%3A1]"},
		{"(host)", forwarded(1, "X-Forwarded-Host", "evil, api.example.com"), "api.example.com"},
		{"(host) (method)", forwarded(1), "- -"},
		{"(method)", forwarded(1, "X-Forwarded-Method", "POST"), "POST"},
		{"(method)", forwarded(1, "X-Forwarded-Method", "INVENTED1"), "OTHER"},
		{"p:(path)", forwarded(1, uri, "/a/b?c=/d#e"), "p:/a/b"},
		{"(path)", forwarded(1, uri, "//a/./x/../%62/"), "/a/b"},
		{"(path)", forwarded(1, uri, "/../../a%2fb%zz"), "/a/b%25zz"},
		{"(path)", forwarded(1, uri, "http://example.com/a?b"), "/a"},
		{"(path)", forwarded(1, uri, "/go?to=http://example.com/"), "/go"},
		{"(path)", forwarded(1, uri, "*"), "/*"},
		{"(path)", forwarded(1, uri, "/a:b c\xff\x00"), "/a%3Ab%20c�%00"},
		{"(path:1)", forwarded(1, uri, "/"), "/"},
		{"(path:1)", forwarded(1, uri, "/api/v1/users"), "/api"},
		{"(path:2)", forwarded(1, uri, "/api/v1/users"), "/api/v1"},
		{"(path:3)", forwarded(1, uri, "/api/v1/users"), "/api/v1/users"},
		{"(path:9)", forwarded(1, uri, "/api"), "/api"},
		{"u:(header:x-user):x", forwarded(1, "X-User", "a:b/c"), "u:a%3Ab%2Fc:x"},
		{"u:(header:X-User)", forwarded(1), "u:-"},
		{"(header:X-User)", forwarded(1, "X-User", long), long[:maxValue]},
		{"(hash:Authorization)", forwarded(1, "Authorization", "Bearer x"), "b937a6fd6074f3650930dd9a8c3ea51f"},
		{"(hash:Authorization)", forwarded(1), "-"},
	} {
		made, err := ParseForwarded(test.template)
		if err != nil {
			t.Errorf("%s: %v", test.template, err)
			continue
		}
		if got, err := made.Key(test.request); got != test.want || err != nil {
			t.Errorf("%s of %v: %q, %v; want %q", test.template, test.request.Header, got, err, test.want)
		}
	}
}

func TestWrongTemplates(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"":                               "it is empty",
		"ip:(client":                     "not closed",
		"ip:{client)":                    "not closed",
		"(ip)":                           "(ip) is unknown: there are (client)",
		"()":                             "unknown",
		"(path:0)":                       "from 1 to 9",
		"(path:x)":                       "from 1 to 9",
		"(header:)":                      "unknown",
		"(header:authorization)":         "write (hash:authorization)",
		"(header:Cookie)":                "secret",
		"(path)(path)(path)(path)(path)": "5 variables: at most 4",
		strings.Repeat("a", maxLiteral) + "(client)b": "101 bytes",
	} {
		if _, err := ParseForwarded(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", template, err, want)
		}
	}
	for _, fields := range [][]string{nil, {"X-Forwarded-For", ""}, {"X-Forwarded-For", "unknown"}, {"X-Forwarded-For", "192.0.2.7, unknown"}} {
		made, err := ParseForwarded("(client)")
		if err != nil {
			t.Fatal(err)
		}
		if key, err := made.Key(forwarded(1, fields...)); err == nil {
			t.Errorf("%q: %q", fields, key)
		}
	}
}

// Whatever a client sends, there is a key, and no other client's.
func FuzzKey(f *testing.F) {
	f.Add("/a%zz?b", "Example.com:80", "a:b", "GET")
	f.Add("http://a/%", "[::1", "\xff", "")
	f.Add(strings.Repeat("/:", 999), strings.Repeat("é", 99), strings.Repeat("%", 99), "x y")
	template, err := ParseForwarded(strings.Repeat("k", maxLiteral-3) + "(path)|(host)|(header:X-User)|(method)")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, uri, host, user, method string) {
		key, err := template.Key(forwarded(1, ForwardedMark, uri, "X-Forwarded-Host", host, "X-User", user, "X-Forwarded-Method", method))
		if err != nil || request.CheckKey(key) != nil || len(key) > engine.MaxKeyBytes || strings.Contains(key, ":") || !utf8.ValidString(key) {
			t.Errorf("%q: %v", key, err)
		}
	})
}
