package ratelimitfields

import (
	"math"
	"net/http"
	"regexp"
	"testing"
	"time"
)

func TestAppendPolicy(t *testing.T) {
	for _, test := range []struct {
		name   string
		quota  uint64
		window time.Duration
		want   string
	}{
		{"default", 100, 10 * time.Second, `"default";q=100;w=10`},
		{"daily", 1000, 24 * time.Hour, `"daily";q=1000;w=86400`},
		{"up", 5, 1500 * time.Millisecond, `"up";q=5;w=2`},
		{"up", 5, time.Second + 1, `"up";q=5;w=2`},
		{"short", 10, 100 * time.Millisecond, `"short";q=10;w=1`},
		{"short", 1, 300 * time.Millisecond, `"short";q=1;w=1`},
		{"short", 1, time.Second - 1, `"short";q=1;w=1`},
		{"none", 1, 0, `"none";q=1;w=1`},
		{"none", 1, -time.Second, `"none";q=1;w=1`},
		{"most", math.MaxUint64, math.MaxInt64, `"most";q=999999999999999;w=9223372037`},
		{"most", math.MaxUint64, 1, `"most";q=999999999999999;w=1`},
		{"a/b.c_d-9", 1, time.Second, `"a/b.c_d-9";q=1;w=1`},
		{"a\"b\\c", 1, time.Second, `"a\"b\\c";q=1;w=1`},
		{"\r\nSet-Cookie: é", 1, time.Second, `"??Set-Cookie: ??";q=1;w=1`},
		{"", 0, time.Minute, `"";q=0;w=60`},
	} {
		if got := string(appendPolicy(nil, test.name, test.quota, test.window)); got != test.want {
			t.Errorf("appendPolicy(%q, %d, %v) = %s, want %s", test.name, test.quota, test.window, got, test.want)
		}
	}
}

func TestAppendLimit(t *testing.T) {
	for _, test := range []struct {
		remaining uint64
		reset     time.Duration
		want      string
	}{
		{50, 30 * time.Second, `"default";r=50;t=30`},
		{0, 0, `"default";r=0;t=0`},
		{0, -1, `"default";r=0;t=0`},
		{1, 1, `"default";r=1;t=1`},
		{1, time.Second, `"default";r=1;t=1`},
		{1, time.Second + 1, `"default";r=1;t=2`},
		{math.MaxUint64, math.MaxInt64, `"default";r=999999999999999;t=9223372037`},
	} {
		if got := string(appendLimit(nil, "default", test.remaining, test.reset)); got != test.want {
			t.Errorf("appendLimit(%d, %v) = %s, want %s", test.remaining, test.reset, got, test.want)
		}
	}
}

func TestSyntaxOfLists(t *testing.T) {
	list := appendPolicy(nil, "permin", 50, time.Minute)
	if got, want := string(appendPolicy(list, "perhr", 1000, time.Hour)), `"permin";q=50;w=60, "perhr";q=1000;w=3600`; got != want {
		t.Errorf("policies %s, want %s", got, want)
	}
	list = appendLimit(nil, "permin", 50, time.Minute)
	if got, want := string(appendLimit(list, "perhr", 9, time.Hour)), `"permin";r=50;t=60, "perhr";r=9;t=3600`; got != want {
		t.Errorf("limits %s, want %s", got, want)
	}
}

func TestRetryAfter(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "1", 0: "1", 1: "1", time.Second: "1", time.Second + 1: "2", time.Hour: "3600", math.MaxInt64: "9223372037",
	} {
		if got := RetryAfter(d); got != want {
			t.Errorf("RetryAfter(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestNamesAreCanonical(t *testing.T) {
	for _, name := range []string{Policy, Limit} {
		if got := http.CanonicalHeaderKey(name); got != name {
			t.Errorf("%s is written %s", name, got)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	buffer := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		appendLimit(appendPolicy(buffer, "login", 5, time.Minute), "login", 4, 48*time.Second)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The grammar of RFC 9651: a list of strings with integer parameters.
var grammar = regexp.MustCompile(`^"([\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*";[qr]=[0-9]{1,15};[wt]=[0-9]{1,15}$`)

func FuzzMember(f *testing.F) {
	f.Add("login", uint64(5), int64(time.Minute))
	f.Add("\"\\\n", uint64(math.MaxUint64), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, name string, n uint64, d int64) {
		for _, member := range [][]byte{appendPolicy(nil, name, n, time.Duration(d)), appendLimit(nil, name, n, time.Duration(d))} {
			if !grammar.Match(member) {
				t.Errorf("not a member of a list: %q", member)
			}
		}
	})
}
