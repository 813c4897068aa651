package statsd

import (
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/request"
)

// reader reads lines without a server.
func reader(t testing.TB, key string) *counting {
	t.Helper()
	made, err := parseTemplate(key)
	if err != nil {
		t.Fatal(err)
	}
	return newCounting(&Server{template: made, cfg: Config{Seed: 1}, log: slog.Default()})
}

func TestLines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		line, template string
		key            string
		n              uint64
		at             int64
		why            *reason
	}{
		{line: "page.views:1|c", key: "page.views", n: 1},
		{line: "a:3|c", key: "a", n: 3},
		{line: "a:0|c", key: "a", n: 0},
		{line: "a:+2.0|c", key: "a", n: 2},
		{line: "a:1e3|c", key: "a", n: 1000},
		{line: "a:1|c|@0.1", key: "a", n: 10},
		{line: "a:3|c|@0.25", key: "a", n: 12},
		{line: "a:1|c|@1", key: "a", n: 1},
		{line: "a:1:2:3|c", key: "a", n: 6},
		{line: "a:1:2:3|c|@0.5|#x:y", key: "a", n: 12},
		{line: "a:0.5:0.5|c", key: "a", n: 1},
		{line: "a:1|c|T1769860000", key: "a", n: 1, at: 1769860000},
		{line: "a:1|c|#env:prod,canary|@0.5|T1|c:in-123|e:x|card:low||", key: "a", n: 2, at: 1},
		{line: "a b:1|c", key: "a b", n: 1},
		{line: "a:1|c|#route:/x:y,env:prod", template: "http:{name}:{tag:route}:{tag:env}:{tag:zone}", key: "http:a:/x:y:prod:-", n: 1},
		{line: "a:1|c|#canary,env:,env:dev", template: "{name}:{tag:canary}:{tag:env}", key: "a:-:dev", n: 1},
		{line: "a:1|c", template: "{tags}{name}", key: "-a", n: 1},
		{line: "a:1|c|#z:1,,b,a:2", template: "{name}#{tags}", key: "a#a:2,b,z:1", n: 1},
		{line: "a:1099511627776|c", key: "a", n: engine.MaxHits},

		{line: "a:1099511627777|c", why: tooLarge},
		{line: "a:1|c|@0.0000000000001", why: tooLarge},
		{line: "a:1e300:1e300|c", why: tooLarge},
		{line: "a", why: malformed},
		{line: "a:1", why: malformed},
		{line: ":1|c", why: malformed},
		{line: "a:|c", why: malformed},
		{line: "a:1|", why: malformed},
		{line: "a:x|c", why: invalidValue},
		{line: "a:1:|c", why: invalidValue},
		{line: "a:NaN|c", why: invalidValue},
		{line: "a:Inf|c", why: invalidValue},
		{line: "a:0x1p2|c", why: invalidValue},
		{line: "a:1_0|c", why: invalidValue},
		{line: "a:1e999|c", why: invalidValue},
		{line: "a:-1|c", why: negative},
		{line: "a:5:-1|c", why: negative},
		{line: "a:1|c|@0", why: invalidRate},
		{line: "a:1|c|@-1", why: invalidRate},
		{line: "a:1|c|@1.1", why: invalidRate},
		{line: "a:1|c|@", why: invalidRate},
		{line: "a:1|c|Tx", why: invalidTime},
		{line: "a:1|c|T-5", why: invalidTime},
		{line: "a:1|g", why: refusedGauge},
		{line: "a:+1|g", why: refusedGauge},
		{line: "a:1|ms|@0.1", why: refusedTimer},
		{line: "a:1|h", why: refusedHistogram},
		{line: "a:1|d", why: refusedDistribution},
		{line: "a:bob|s", key: "a", n: 1},
		{line: "a:-5:x|s|@1|T7", key: "a", n: 1, at: 7},
		{line: "a:bob|s|@0.5", why: invalidRate},
		{line: "a:" + strings.Repeat("x", 513) + "|s", why: invalidValue},
		{line: "_e{5,4}:title|text", why: refusedEvent},
		{line: "_sc|db|0", why: refusedCheck},
		{line: "a:1|q", why: unknownType},
		{line: "a:1|cc", why: unknownType},
		{line: "\xff:1|c", why: invalidKey},
		{line: strings.Repeat("a", 513) + ":1|c", why: invalidKey},
		{line: "a:1|c", template: "limit:{name}", why: reservedKey},
		{line: "a:1|c|#" + strings.Repeat("t,", 65), template: "{name}{tags}", why: manyTags},
	} {
		if test.template == "" {
			test.template = "{name}"
		}
		c := reader(t, test.template)
		n, added, why := c.read([]byte(test.line))
		if why != test.why {
			t.Errorf("%.60s: %+v, want %+v", test.line, why, test.why)
		} else if why == counted && (string(c.key) != test.key || n != test.n || c.line.at != test.at || (added > 0) != (strings.Contains(test.line, "|@0") && n > 0)) {
			t.Errorf("%s: %q %d at %d, want %q %d at %d", test.line, c.key, n, c.line.at, test.key, test.n, test.at)
		}
	}
}

// The mean of what sampled lines stand for is true: within five standard deviations.
func TestRoundingIsUnbiased(t *testing.T) {
	t.Parallel()
	const lines = 200_000
	for line, mean := range map[string]float64{"a:1|c|@0.3": 1 / 0.3, "a:1|c|@0.7": 1 / 0.7, "a:0.01|c": 0.01, "a:2.5:0.25|c|@0.9": 2.75 / 0.9} {
		c, sum := reader(t, "{name}"), 0.0
		for range lines {
			n, _, why := c.read([]byte(line))
			if why != counted || math.Abs(float64(n)-mean) >= 1 {
				t.Fatalf("%s: %d, %+v", line, n, why)
			}
			sum += float64(n)
		}
		rest := mean - math.Floor(mean)
		if off := math.Abs(sum/lines - mean); off > 5*math.Sqrt(rest*(1-rest)/lines) {
			t.Errorf("%s: the mean is off by %g", line, off)
		}
	}
}

func TestWrongTemplates(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"{name": "not closed", "{tag:}{name}": "{tag:} is unknown", "{x}": "{name}, {tag:NAME} and {tags}", "all": "no {name}", "limit:{name}": "no key begins with limit:", "{name}" + strings.Repeat("x", 512): "longer",
	} {
		if err := (Config{Key: key}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %s", key, err, want)
		}
	}
}

// What is taken has a key and a number that the engine takes.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{"a:1|c", "a:1:2|c|@0.3|#a:b,c|T17", "_e{1,2}:a|b", "a:1|c|@", ":|", "a:1e9|c|@1e-9", "\xff:-1|c|#,", "a:1|c|#" + strings.Repeat("t,", 70)} {
		f.Add([]byte(seed))
	}
	c := reader(f, "p:{name}:{tag:a}:{tags}")
	f.Fuzz(func(t *testing.T, text []byte) {
		const longest = 8 << 10 // a longer one is refused before
		if len(text) > longest {
			return
		}
		n, added, why := c.read(text)
		switch {
		case why != counted && why.name == "":
			t.Errorf("%q: reason %+v", text, why)
		case why == counted && (n > engine.MaxHits || n > 0 && added > n || request.CheckHitKey(string(c.key)) != nil || !strings.HasPrefix(string(c.key), "p:")):
			t.Errorf("%q: %q %d", text, c.key, n)
		}
		if cap(c.key) > 4*(engine.MaxKeyBytes+longest) {
			t.Errorf("%d bytes for a key", cap(c.key))
		}
	})
}
