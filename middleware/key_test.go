package middleware

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-counter/weir"
)

func request(header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://shop.example/", nil)
	r.RemoteAddr = "203.0.113.7:99"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestKeys(t *testing.T) {
	path := ByFunc(func(r *http.Request) (string, bool) { return r.URL.Query().Get("user"), true })
	query := request()
	query.URL.RawQuery = "user=bob"
	for _, test := range []struct {
		name string
		key  Key
		r    *http.Request
		want string
	}{
		{"a header", ByHeader("x-api-key"), request("X-Api-Key", "secret"), "header:x-api-key:en6OJ5nWYnSXp0Wx-ViHxw"},
		{"its first value", ByHeader("X-API-KEY"), request("X-Api-Key", "secret", "X-Api-Key", "other"), "header:x-api-key:en6OJ5nWYnSXp0Wx-ViHxw"},
		{"no header", ByHeader("X-Api-Key"), request("X-Api-Keys", "secret"), ""},
		{"an empty header", ByHeader("X-Api-Key"), request("X-Api-Key", ""), ""},
		{"the host", ByPlainHeader("Host"), request(), "header:host:shop.example"},
		{"a plain header", ByPlainHeader("X-Tenant"), request("X-Tenant", "acme"), "header:x-tenant:acme"},
		{"of 256 bytes", ByPlainHeader("X-Tenant"), request("X-Tenant", strings.Repeat("é", 128)), "header:x-tenant:" + strings.Repeat("é", 128)},
		{"of more", ByPlainHeader("X-Tenant"), request("X-Tenant", strings.Repeat("a", 257)), "header:x-tenant:Hfth4suZkg8-vF1DvKo68g"},
		{"not UTF-8", ByPlainHeader("X-Tenant"), request("X-Tenant", "\xff"), "header:x-tenant:_P_rkh4X4LTuML2Dnqg55w"},
		{"a cookie", ByCookie("session"), request("Cookie", "a=b; session=secret"), "cookie:session:zGpuk6qC6tgGeY1GykR1Dg"},
		{"no cookie", ByCookie("session"), request("Cookie", "Session=secret"), ""},
		{"an empty cookie", ByCookie("session"), request("Cookie", "session="), ""},
		{"a function", path, query, "bob"},
		{"a function without", path, request(), ""},
		{"the first", FirstOf(ByCookie("session"), ByPlainHeader("X-Tenant"), ByAddress(AddressOptions{})), request("X-Tenant", "acme"), "header:x-tenant:acme"},
		{"the last", FirstOf(ByCookie("session"), ByPlainHeader("X-Tenant"), ByAddress(AddressOptions{})), request(), "address:203.0.113.7"},
		{"none", FirstOf(ByCookie("session"), ByPlainHeader("X-Tenant")), request(), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.key.check(); err != nil {
				t.Fatal(err)
			}
			if got, ok := test.key.read(test.r); ok != (test.want != "") || ok && got != test.want {
				t.Errorf("%q %v, want %q", got, ok, test.want)
			}
		})
	}
}

func TestKeysAreChecked(t *testing.T) {
	for name, key := range map[string]Key{
		"none": {}, "a header": ByHeader(""), "a header with a space": ByPlainHeader("X Y"), "a long header": ByHeader(strings.Repeat("x", 101)),
		"a cookie": ByCookie(""), "a cookie with a sign": ByCookie("a=b"), "a function": ByFunc(nil), "the first of none": FirstOf(),
		"the first of a wrong one": FirstOf(ByHeader("X"), ByCookie("")), "an address": ByAddress(AddressOptions{IPv6Bits: 129}),
	} {
		if err := key.check(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What a client sends makes no key that Weir would refuse, and no other client's.
func FuzzKeys(f *testing.F) {
	f.Add("acme", "1.2.3.4")
	f.Add(strings.Repeat("a", 1000), "\xff\x00")
	prefix := strings.Repeat("p", maxPrefixBytes)
	f.Fuzz(func(t *testing.T, value, other string) {
		keys := []Key{
			ByHeader("X-A"), ByPlainHeader("X-A"), ByPlainHeader("X-" + strings.Repeat("a", maxNameBytes-2)),
			ByFunc(func(r *http.Request) (string, bool) { return r.Header["X-A"][0], true }),
		}
		for i, k := range keys {
			r := request()
			r.Header["X-A"], r.Header["X-A"+strings.Repeat("a", maxNameBytes-3)] = []string{value}, []string{value}
			key, ok := k.read(r)
			if !ok {
				continue
			}
			if key = bounded(prefix, key); key == "" || len(key) > weir.MaxKeyBytes || !utf8.ValidString(key) || !strings.HasPrefix(key, prefix) {
				t.Errorf("key %d: %q", i, key)
			}
			if i < 3 && !strings.HasPrefix(key, prefix+"header:x-a") {
				t.Errorf("key %d has another kind: %q", i, key)
			}
			r.Header["X-A"], r.Header["X-A"+strings.Repeat("a", maxNameBytes-3)] = []string{other}, []string{other}
			if second, ok := k.read(r); ok && value != other && bounded(prefix, second) == key && i != 3 {
				t.Errorf("key %d: %q and %q have one key %q", i, value, other, key)
			}
		}
	})
}
