package ratelimitfields

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestList(t *testing.T) {
	login := Member{Name: "login", Key: "login:bob", Quota: 5, Window: time.Minute, Burst: 5, Remaining: 3, Reset: 12 * time.Second}
	other, later := login, login
	other.Key, other.Remaining = "login:eve", 0
	later.Remaining = 2
	api := Member{Name: "api", Key: "login:bob", Quota: 100, Window: time.Second, Burst: 100, Remaining: 99, Reset: 10 * time.Millisecond}
	for _, test := range []struct {
		name          string
		members       []Member
		wait          time.Duration
		policy, limit string
	}{
		{"none", nil, 0, "", ""},
		{"one", []Member{login}, 0, `"login";q=5;w=60`, `"login";r=3;t=12`},
		{"two limits of a key", []Member{login, api}, 0, `"login";q=5;w=60, "api";q=100;w=1`, `"login";r=3;t=12, "api";r=99;t=1`},
		{"denied", []Member{login, api}, 1500 * time.Millisecond, `"login";q=5;w=60, "api";q=100;w=1`, `"login";r=3;t=2, "api";r=99;t=1`},
		{"two keys of a limit", []Member{login, api, other}, 0,
			`"login";q=5;w=60;pk=:gHcLLEICQs6L:, "api";q=100;w=1, "login";q=5;w=60;pk=:6413nd5N9EK7:`,
			`"login";r=3;t=12;pk=:gHcLLEICQs6L:, "api";r=99;t=1, "login";r=0;t=12;pk=:6413nd5N9EK7:`},
		{"what comes back until t is over is not there now", []Member{{Name: "short", Quota: 3, Window: 100 * time.Millisecond, Reset: 100 * time.Millisecond}}, 0,
			`"short";q=30;w=1;weir-burst=3`, `"short";r=0;t=1`},
		{"one key twice", []Member{login, later}, 0, `"login";q=5;w=60`, `"login";r=2;t=12`},
	} {
		var l List
		for range 2 { // its memory is used again
			l.Reset()
			for _, m := range test.members {
				l.Add(m)
			}
			h := http.Header{}
			l.Write(h, test.wait)
			if got := [2]string{h.Get("RateLimit-Policy"), h.Get("RateLimit")}; got != [2]string{test.policy, test.limit} {
				t.Errorf("%s:\n got %s\nwant %s", test.name, got, [2]string{test.policy, test.limit})
			}
			if test.members == nil && len(h) > 0 {
				t.Errorf("%s: %v", test.name, h)
			}
		}
	}
}

// A middleware around this one may have set fields for its own limits.
func TestListsAreAdded(t *testing.T) {
	h := http.Header{}
	for _, name := range []string{"outer", "inner"} {
		var l List
		l.Add(Member{Name: name, Quota: 1, Window: time.Second, Burst: 1})
		l.Write(h, 0)
	}
	want := http.Header{Policy: {`"outer";q=1;w=1`, `"inner";q=1;w=1`}, Limit: {`"outer";r=0;t=0`, `"inner";r=0;t=0`}}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("got %v, want %v", h, want)
	}
}

// Keys of any length leave headers that proxies take.
func TestLongKeysAreNotTold(t *testing.T) {
	var l List
	for i := range 64 {
		l.Add(Member{Name: strings.Repeat("n", 64), Key: strings.Repeat(string(rune('0'+i)), 512), Quota: 1, Window: time.Hour, Burst: 1, Reset: time.Hour})
	}
	h := http.Header{}
	l.Write(h, 0)
	for name := range h {
		if n := len(h.Get(name)); n > 8<<10 {
			t.Errorf("%s has %d bytes", name, n)
		}
	}
}
