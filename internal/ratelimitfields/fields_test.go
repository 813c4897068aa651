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
		name         string
		quota, burst uint64
		window       time.Duration
		want         string
	}{
		{"default", 100, 100, 10 * time.Second, `"default";q=100;w=10`},
		{"daily", 1000, 1000, 24 * time.Hour, `"daily";q=1000;w=86400`},
		{"api", 1000, 50, time.Second, `"api";q=1000;w=1;weir-burst=50`},
		{"burst", 100, 500, time.Minute, `"burst";q=100;w=60;weir-burst=500`},
		{"half", 5, 5, 1500 * time.Millisecond, `"half";q=10;w=3;weir-burst=5`},
		{"short", 10, 10, 100 * time.Millisecond, `"short";q=100;w=1;weir-burst=10`},
		{"third", 1, 1, 300 * time.Millisecond, `"third";q=10;w=3;weir-burst=1`},
		{"seven", 1, 1, 7 * time.Millisecond, `"seven";q=1000;w=7;weir-burst=1`},
		{"odd", 1, 1, 1001 * time.Millisecond, `"odd";q=59;w=60;weir-burst=1`},
		{"odd", 5, 5, time.Second + 1, `"odd";q=299;w=60;weir-burst=5`},
		{"odd", 7, 7, time.Hour + time.Millisecond, `"odd";q=7;w=3601`},
		{"none", 1, 1, 0, `"none";q=1;w=1`},
		{"none", 1, 1, -time.Second, `"none";q=1;w=1`},
		{"most", math.MaxUint64, math.MaxUint64, math.MaxInt64, `"most";q=999999999999999;w=9223372037`},
		{"most", math.MaxUint64, math.MaxUint64, 1, `"most";q=999999999999999;w=1`},
		{"a/b.c_d-9", 1, 1, time.Second, `"a/b.c_d-9";q=1;w=1`},
		{"a\"b\\c", 1, 1, time.Second, `"a\"b\\c";q=1;w=1`},
		{"\r\nSet-Cookie: é", 1, 1, time.Second, `"??Set-Cookie: ??";q=1;w=1`},
		{"", 0, 0, time.Minute, `"";q=0;w=60`},
	} {
		if got := string(appendPolicy(nil, test.name, test.quota, test.burst, test.window)); got != test.want {
			t.Errorf("appendPolicy(%q, %d, %d, %v) = %s, want %s", test.name, test.quota, test.burst, test.window, got, test.want)
		}
	}
}

func TestAppendLimit(t *testing.T) {
	for _, test := range []struct {
		remaining, seconds uint64
		want               string
	}{
		{50, 30, `"default";r=50;t=30`},
		{0, 0, `"default";r=0;t=0`},
		{math.MaxUint64, 9223372037, `"default";r=999999999999999;t=9223372037`},
	} {
		if got := string(appendLimit(nil, "default", test.remaining, test.seconds)); got != test.want {
			t.Errorf("appendLimit(%d, %v) = %s, want %s", test.remaining, test.seconds, got, test.want)
		}
	}
}

func TestSyntaxOfLists(t *testing.T) {
	list := appendPolicy(nil, "permin", 50, 50, time.Minute)
	if got, want := string(appendPolicy(list, "perhr", 1000, 1000, time.Hour)), `"permin";q=50;w=60, "perhr";q=1000;w=3600`; got != want {
		t.Errorf("policies %s, want %s", got, want)
	}
	list = appendLimit(nil, "permin", 50, 60)
	if got, want := string(appendLimit(list, "perhr", 9, 3600)), `"permin";r=50;t=60, "perhr";r=9;t=3600`; got != want {
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
		appendLimit(appendPolicy(buffer, "login", 5, 3, time.Minute), "login", 4, 48)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The grammar of RFC 9651: a list of strings with integer parameters.
var grammar = regexp.MustCompile(`^"([\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*";[qr]=[0-9]{1,15};[wt]=[0-9]{1,15}(;weir-burst=[0-9]{1,15})?$`)

func FuzzMember(f *testing.F) {
	f.Add("login", uint64(5), int64(time.Minute))
	f.Add("\"\\\n", uint64(math.MaxUint64), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, name string, n uint64, d int64) {
		m := Member{Quota: n, Burst: n ^ 3, Window: time.Duration(d), Remaining: n, Reset: time.Duration(d)}
		for _, member := range [][]byte{appendPolicy(nil, name, n, n^3, time.Duration(d)), appendLimit(nil, name, m.Remaining, n)} {
			if !grammar.Match(member) {
				t.Errorf("not a member of a list: %q", member)
			}
		}
	})
}
