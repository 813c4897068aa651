package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/limit"
)

// good is a policy without faults, but for the fields that a test adds.
const good = "limits:\n  - name: login\n    keys: \"login:*\"\n    limit: 5\n    per: 1m\n"

func TestParse(t *testing.T) {
	set, err := Parse("p.yaml", []byte(`# every field
limits:
  - name: api
    keys: "api:{user}:*"
    by: "api:{user}"
    limit: 1_000
    per: 1h30m
    burst: 50
    algorithm: gcra
    mode: shadow
    order: 10
    last: true
    overrides:
      - key: "api:admin"
        limit: 10000
      - {key: "api:batch", per: 1d, burst: 7}
  - {name: first, keys: "*", limit: 1, per: 250ms, order: -1}
  - name: login
    keys: login:*
    limit: "5"
    per: 60
    overrides: [{key: login:admin, limit: 100}]
`))
	if err != nil {
		t.Fatal(err)
	}
	gcra := func(n uint64, per time.Duration, burst uint64) limit.Limit {
		return limit.Limit{N: n, Per: per, Burst: burst, Algorithm: limit.GCRA}
	}
	want := []Policy{
		{Name: "first", Keys: "*", Limit: limit.Limit{N: 1, Per: 250 * time.Millisecond, Burst: 1}, Where: limit.WhereLeased, Order: -1, Line: 17},
		{Name: "login", Keys: "login:*", Limit: limit.Limit{N: 5, Per: time.Minute, Burst: 5}, Where: limit.WhereLeased, Line: 18,
			Overrides: []Override{{Key: "login:admin", Limit: limit.Limit{N: 100, Per: time.Minute, Burst: 100}, Line: 22}}},
		{Name: "api", Keys: "api:{user}:*", By: "api:{user}", Limit: gcra(1000, 90*time.Minute, 50), Mode: Shadow, Where: limit.WhereLeased, Order: 10, Last: true, Line: 3,
			Overrides: []Override{{Key: "api:admin", Limit: gcra(10000, 90*time.Minute, 50), Line: 14}, {Key: "api:batch", Limit: gcra(1000, 24*time.Hour, 7), Line: 16}}},
	}
	if got := set.Policies(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, none := range []string{"limits: []", "limits: [] # none\n", "---\nlimits: []\n...\n", "\ufefflimits: []\n"} {
		if set, err := Parse("p.yaml", []byte(none)); err != nil || len(set.Policies()) != 0 {
			t.Errorf("%q: %v", none, err)
		}
	}
}

// Each fault as it is reported. A text that begins with + is added to good.
func TestFaults(t *testing.T) {
	const known = "there are name, keys, by, limit, per, tz, anchor, burst, algorithm, mode, where, regions, within, away, deny_for, warn, wait, cost, count_if, order, last, except, overrides"
	const none = "limits: there are none: write `limits:` and a list of policies, or `limits: []` for none on purpose"
	const year = "p.yaml:5: per: %s: must be 1ms to 366d"
	override := func(rest string) string { return "+    overrides:\n      - " + rest }
	for _, c := range []struct {
		text string
		want string // all faults, a line each
	}{
		// The file.
		{"", "p.yaml: " + none},
		{"# nothing\n", "p.yaml: " + none},
		{"null", "p.yaml:1: " + none},
		{"limits:\n", "p.yaml:1: " + none},
		{"{}", "p.yaml:1: " + none},
		{"domain: edge\n", "p.yaml:1: domain: unknown field; there are limits; it is a configuration of envoyproxy/ratelimit: name it with --rls-config\np.yaml:1: " + none},
		{"limit: []\n", "p.yaml:1: limit: unknown field, did you mean limits?; there are limits\np.yaml:1: " + none},
		{"- a\n", "p.yaml:1: a list: write fields, for example `limits:`"},
		{"limits: 5\n", "p.yaml:1: limits: \"5\": write a list, each element with a dash: `- name: login`"},
		{"limits:\n  name: a\n", "p.yaml:2: limits: a mapping: write a list, each element with a dash: `- name: login`"},
		{"limits: [5, [], ]\n", "p.yaml:1: \"5\": write fields, for example `name: login`\np.yaml:1: a list: write fields, for example `name: login`"},
		{"limits: []\nlimits: []\n", "p.yaml:2: limits: it stands twice, first in line 1: remove one"},
		{"limits: []\n---\nlimits: []\n", "p.yaml:2: a second document: put all policies under one `limits:`, without ---"},
		{"? [a]\n: 1\n", "p.yaml:1: a list in place of a field's name: there are limits\np.yaml:1: " + none},
		{"limits:\n  - name: a\n\tkeys: x\n", "p.yaml:3: not YAML: a tab in the indent: write spaces in its place"},
		{"limits:\n  - name: a\n   keys: x\n", "p.yaml:3: not YAML: did not find expected '-' indicator; look for a wrong indent, a missing colon, or * { } without quotes near this line"},
		{"limits:\n  - name: a\n    keys: *\n", "p.yaml:3: not YAML: did not find expected alphabetic or numeric character; look for a wrong indent, a missing colon, or * { } without quotes near this line"},
		{"limits: []\n\xff", "p.yaml:2: not text: save the file as UTF-8, without control characters"},
		{"limits: []\n\n\x00", "p.yaml:3: not text: save the file as UTF-8, without control characters"},
		{strings.Repeat("#", MaxFileBytes+1), "p.yaml: larger than 4MiB: a policy file is smaller; users are distinguished by their keys, not by policies"},
		{"limits:" + strings.Repeat("\n- a", MaxPolicies+1), "p.yaml:2: limits: 2001 policies: at most 2000; a pattern like \"user:*\" is one policy for all users"},

		// Fields.
		{"limits:\n  - {}\n", "p.yaml:2: name: it is missing: every policy has name, keys, limit and per\n" +
			"p.yaml:2: keys: it is missing: every policy has name, keys, limit and per\n" +
			"p.yaml:2: limit: it is missing: every policy has name, keys, limit and per\n" +
			"p.yaml:2: per: it is missing: every policy has name, keys, limit and per"},
		{"+    brust: 3\n", "p.yaml:6: brust: unknown field, did you mean burst?; " + known},
		{"+    window: 3\n", "p.yaml:6: window: unknown field; " + known},
		{"+    limit: 6\n", "p.yaml:6: limit: it stands twice, first in line 4: remove one"},
		{"+    <<: {burst: 3}\n", "p.yaml:6: <<: unknown field; " + known},
		{"+    \"\": 3\n", "p.yaml:6: unknown field; " + known},

		// Names.
		{"limits:\n  - name: log in\n    keys: \"a\"\n    limit: 5\n    per: 1m\n", "p.yaml:2: name: \"log in\": write 1 to 64 letters, digits or any of ._/-"},
		{"limits:\n  - name:\n    keys: \"a\"\n    limit: 5\n    per: 1m\n", "p.yaml:2: name: it is empty: write for example `name: login`"},
		{"limits:\n  - name: inline/a\n    keys: \"a\"\n    limit: 5\n    per: 1m\n", "p.yaml:2: name: \"inline/a\": names that begin with inline/ belong to limits that requests bring along: write another"},
		{"+  - name: login\n    keys: \"b\"\n    limit: 5\n    per: 1m\n", "p.yaml:6: name: \"login\" stands twice, first in line 2: give each policy its own name"},

		// Keys and by.
		{"limits:\n  - name: a\n    keys: {user}\n    limit: 5\n    per: 1m\n", "p.yaml:3: keys: { } without quotes is a mapping: write for example `keys: \"login:*\"`"},
		{"limits:\n  - name: &n a\n    keys: *n\n    limit: 5\n    per: 1m\n", "p.yaml:3: keys: *n is an alias of YAML, which is not taken here (write * in quotes): write for example `keys: \"login:*\"`"},
		{"limits:\n  - name: a\n    keys: \"a:**\"\n    limit: 5\n    per: 1m\n", "p.yaml:3: keys: \"a:**\": nothing stands between * and *: write text between them, or one of them alone"},
		{"+    by: \"login:{user}\"\n", "p.yaml:6: by: \"login:{user}\": {user} is not a capture of keys; keys has no captures"},
		{"+    by: []\n", "p.yaml:6: by: a list: write for example `by: \"login:{user}\"`"},
		{"+    by: \"\"\n", "p.yaml:6: by: \"\": 0 bytes: write 1 to 256, or leave `by` out to count each key by itself"},

		// Numbers.
		{"limits:\n  - name: a\n    keys: a\n    limit: 0\n    per: 1m\n", "p.yaml:4: limit: \"0\" is not a whole number from 1 to 31622400000000: write for example `limit: 100`"},
		{"limits:\n  - name: a\n    keys: a\n    limit: 010\n    per: 1m\n", "p.yaml:4: limit: \"010\" is not a whole number from 1 to 31622400000000: write for example `limit: 100`"},
		{"limits:\n  - name: a\n    keys: a\n    limit: 5.5\n    per: 1m\n", "p.yaml:4: limit: \"5.5\" is not a whole number from 1 to 31622400000000: write for example `limit: 100`" +
			"; for a fractional rate write a longer period, such as `limit: 1` with `per: 2s` for 0.5 per second"},
		{"limits:\n  - name: a\n    keys: a\n    limit: 1e3\n    per: 1m\n", "p.yaml:4: limit: \"1e3\" is not a whole number from 1 to 31622400000000: write for example `limit: 100`"},
		{"limits:\n  - name: a\n    keys: a\n    limit: _\n    per: 1m\n", "p.yaml:4: limit: \"_\" is not a whole number from 1 to 31622400000000: write for example `limit: 100`"},
		{"limits:\n  - name: a\n    keys: a\n    limit: 60000001\n    per: 1m\n", "p.yaml:4: limit: n of 60000001 per 1m0s: must be 1 to 60000000, a million per second"},
		{"limits:\n  - name: a\n    keys: a\n    limit: 5\n    per: soon\n", "p.yaml:5: per: \"soon\" is not a duration: write 90s, 5m, 24h, 7d, 1w, 1y, 1h30m or a number of seconds, or day, week or month of the calendar"},
		{"limits:\n  - name: a\n    keys: a\n    limit: 5\n    per: 0\n", fmt.Sprintf(year, "0s")},
		{"limits:\n  - name: a\n    keys: a\n    limit: 5\n    per: 367d\n", fmt.Sprintf(year, "367d")},
		{"limits:\n  - name: a\n    keys: a\n    limit: 0\n    per: 1ms1ms\n    burst: -1\n    overrides: [{key: a, limit: x, per: 0, burst: y}]\n",
			"p.yaml:4: limit: \"0\" is not a whole number from 1 to 31622400000000: write for example `limit: 100`\n" +
				"p.yaml:5: per: \"1ms1ms\" is not a duration: write 90s, 5m, 24h, 7d, 1w, 1y, 1h30m or a number of seconds, or day, week or month of the calendar\n" +
				"p.yaml:6: burst: \"-1\" is not a whole number from 1 to 35184372088832: write for example `burst: 10`\n" +
				"p.yaml:7: overrides.limit: \"x\" is not a whole number from 1 to 31622400000000: write for example `limit: 100`\n" +
				"p.yaml:7: overrides.per: 0s: must be 1ms to 366d\n" +
				"p.yaml:7: overrides.burst: \"y\" is not a whole number from 1 to 35184372088832: write for example `burst: 10`"},
		{"limits:\n  - name: a\n    keys: a\n    limit: 60000001\n    per: 1m\n    burst: 99999999999999999999\n",
			"p.yaml:4: limit: n of 60000001 per 1m0s: must be 1 to 60000000, a million per second\n" +
				"p.yaml:6: burst: \"99999999999999999999\" is not a whole number from 1 to 35184372088832: write for example `burst: 10`"},
		{"+    burst: many\n", "p.yaml:6: burst: \"many\" is not a whole number from 1 to 35184372088832: write for example `burst: 10`"},
		{"+    burst: 35184372088833\n", "p.yaml:6: burst: \"35184372088833\" is not a whole number from 1 to 35184372088832: write for example `burst: 10`"},
		{"+    order: high\n", "p.yaml:6: order: \"high\" is not a whole number of -2147483648 to 2147483647: write for example `order: 10`, lower comes first"},
		{"+    last: yes\n", "p.yaml:6: last: \"yes\": write true or false"},
		{"+    mode: shadwo\n", "p.yaml:6: mode: \"shadwo\", did you mean shadow?; there are enforce, shadow"},
		{"+    algorithm: leaky\n", "p.yaml:6: algorithm: \"leaky\"; there are window, fixed, gcra"},
		{"+    mode: [shadow]\n", "p.yaml:6: mode: a list: write for example `mode: enforce`"},

		// Overrides.
		{"+    overrides: all\n", "p.yaml:6: overrides: \"all\": write a list, each element with a dash: `- key: \"login:admin\"`"},
		{override("5\n"), "p.yaml:7: overrides: \"5\": write fields, for example `key: \"login:admin\"`"},
		{override("limit: 5\n"), "p.yaml:7: overrides.key: it is missing: write the counted key that has another limit, for example `key: \"login:admin\"`, or `cidr: 192.0.2.0/24`"},
		{override("key: \"login:admin\"\n"), "p.yaml:7: overrides.limit: it is missing: an override has limit, per or burst, else it changes nothing"},
		{override("{key: \"login:admin\", limt: 5, burst: 2}\n"), "p.yaml:7: overrides.limt: unknown field, did you mean limit?; there are key, cidr, limit, per, burst"},
		{override("key: admin\n        limit: 6\n"), "p.yaml:7: overrides.key: \"admin\" is never counted: it does not fit keys \"login:*\"; write the whole key"},
		{override("key: \"login:*\"\n        limit: 6\n"), "p.yaml:7: overrides.key: \"login:*\": an override is for one key, and * and { } stand for no others here: write the whole key, or a policy of its own for many"},
		{override("key: \"login:{user}\"\n        limit: 6\n"), "p.yaml:7: overrides.key: \"login:{user}\": an override is for one key, and * and { } stand for no others here: write the whole key, or a policy of its own for many"},
		{override("key: \"\"\n        limit: 6\n"), "p.yaml:7: overrides.key: 0 bytes: a key has 1 to 512"},
		{override("key: \"login:a\"\n        limit: 6\n      - key: \"login:a\"\n        limit: 7\n"), "p.yaml:9: overrides.key: \"login:a\" stands twice, first in line 7: remove one"},
		{override("key: \"login:a\"\n        per: 1ns\n"), "p.yaml:8: overrides.per: \"1ns\" is not a duration: write 90s, 5m, 24h, 7d, 1w, 1y, 1h30m or a number of seconds"},
		{override("key: \"login:a\"\n        limit: 70000000\n"), "p.yaml:8: overrides.limit: n of 70000000 per 1m0s: must be 1 to 60000000, a million per second"},
		{override("key: \"login:a\"\n        burst: 99999999999999\n"), "p.yaml:8: overrides.burst: \"99999999999999\" is not a whole number from 1 to 35184372088832: write for example `burst: 10`"},
		{"limits:\n  - name: a\n    keys: \"a:{u}:*\"\n    by: \"a:{u}\"\n    limit: 1\n    per: 1s\n    overrides: [{key: bob, limit: 2}]\n",
			"p.yaml:7: overrides.key: \"bob\" is never counted: it is no key that by \"a:{u}\" makes; write the whole key"},

		// Several at once, in the order of lines.
		{"limits:\n  - name: a b\n    key: x\n    limit: none\n    per: 1m\n  - keys: y\n    limit: 1\n    per: 1\n    name: a\n    mode: off\n",
			"p.yaml:2: keys: it is missing: every policy has name, keys, limit and per\n" +
				"p.yaml:2: name: \"a b\": write 1 to 64 letters, digits or any of ._/-\n" +
				"p.yaml:3: key: unknown field, did you mean keys?; " + known + "\n" +
				"p.yaml:4: limit: \"none\" is not a whole number from 1 to 31622400000000: write for example `limit: 100`\n" +
				"p.yaml:10: mode: \"off\"; there are enforce, shadow"},
	} {
		text := c.text
		if rest, ok := strings.CutPrefix(text, "+"); ok {
			text = good + rest
		}
		_, err := Parse("p.yaml", []byte(text))
		got := "no fault"
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%.200q:\n got %s\nwant %s", text, got, c.want)
		}
	}
}

func TestFaultsAreBounded(t *testing.T) {
	_, err := Parse("p.yaml", []byte("limits:"+strings.Repeat("\n- a", MaxPolicies)))
	faults, ok := errors.AsType[Faults](err)
	if !ok || len(faults) != MaxFaults+1 || faults[MaxFaults].String() != "p.yaml: and 1900 more faults" {
		t.Errorf("%d faults, the last: %v", len(faults), faults[len(faults)-1])
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	write(t, path, good)
	set, err := Load(path)
	if err != nil || len(set.Policies()) != 1 {
		t.Errorf("a good file: %v", err)
	}
	if _, err := Load(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	write(t, path, strings.Repeat("#", MaxFileBytes+9))
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+": larger than 4MiB") {
		t.Errorf("a large file: %.200v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whatever the file, Parse ends with a Set that an engine takes, or with faults that each
// say something.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{good, good + "    overrides: [{key: \"login:a\", burst: 3}]\n", "limits: [{}]", "limits: [&a [*a]]",
		"limits:\n- <<: *a\n", "? {? ", "limits: !!int \"x\"", "limits: |\n  a", "%YAML 1.1\n---\nlimits: []"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := Parse("p.yaml", data)
		if err == nil {
			policies := set.Policies()
			if !slices.IsSortedFunc(policies, func(a, b Policy) int { return a.Order - b.Order }) {
				t.Fatal("not in order")
			}
			for _, p := range policies {
				if _, err := limit.New(p.Limit); err != nil || !isName(p.Name) || p.Keys == "" {
					t.Fatalf("policy %+v: %v", p, err)
				}
			}
			return
		}
		faults, ok := errors.AsType[Faults](err)
		if !ok || len(faults) == 0 || set != nil {
			t.Fatalf("%T: %v", err, err)
		}
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u0085") + strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029") + 2
		for _, fault := range faults {
			if fault.Message == "" || fault.Line < 0 || fault.Line > lines {
				t.Fatalf("fault %+v", fault)
			}
		}
	})
}
