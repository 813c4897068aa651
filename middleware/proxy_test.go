package middleware

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"
)

// Clients behind a real proxy that appends to X-Forwarded-For have one limit each,
// whatever they write into it.
func TestSpoofingBehindAProxy(t *testing.T) {
	c := newClock()
	e := newEngine(t, c)
	l := newLimit(t, e, "client", 1, time.Hour)
	next, calls := handled()
	origin := httptest.NewServer(newMiddleware(t, Config{
		Decider: Limits(e, l),
		Rules:   []Rule{{Limit: "client", Key: ByAddress(AddressOptions{Trusted: prefixes("127.0.0.0/8", "::1/128")})}},
	}).Wrap(next))
	defer origin.Close()
	target, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header[forwardedFor] = r.In.Header[forwardedFor]
		r.SetXForwarded()
	}}
	for i, spoofed := range []string{"", "198.51.100.1", "127.0.0.1", "127.0.0.1, 127.0.0.2", "198.51.100.2, 127.0.0.1", "x", ",", "203.0.113.7:80,", "::1"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "203.0.113.7:4711"
		if spoofed != "" {
			r.Header.Set(forwardedFor, spoofed)
		}
		want := http.StatusTooManyRequests
		if i == 0 {
			want = http.StatusOK
		}
		if answer := ask(proxy, r); answer.StatusCode != want {
			t.Errorf("%q: %d, want %d", spoofed, answer.StatusCode, want)
		}
	}
	if keys := l.Keys(10); calls() != 1 || len(keys) != 1 || keys[0].Key != "address:203.0.113.7" {
		t.Errorf("%d passed, keys %+v", calls(), keys)
	}
}
