package envoy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// parse reads one file, limits.yaml, or more: name and text by turns.
func parse(files ...string) (*LimitConfig, error) {
	if len(files) == 1 {
		files = []string{"limits.yaml", files[0]}
	}
	var all []byte
	for i := 0; i < len(files); i += 2 {
		all = AppendFile(all, files[i], []byte(files[i+1]))
	}
	return ParseConfig(all)
}

func mustParse(t *testing.T, files ...string) *LimitConfig {
	t.Helper()
	c, err := parse(files...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const nested = `
domain: d
descriptors:
- key: k
  value: v
  descriptors:
  - key: sub
    rate_limit: {unit: second, requests_per_unit: 5}
  - {key: sub, value: one, rate_limit: {unit: SECOND, requests_per_unit: 10, name: n, replaces: [{name: a}, {name: b}]}, shadow_mode: true}
- key: k2
  rate_limit: {unit: Minute, requests_per_unit: 20}
- {key: k2, value: v2, rate_limit: {unit: hour, requests_per_unit: 30}, quota_mode: yes}
- {key: k2, value: free}
- {key: k5, value: v5, rate_limit: {unit: day, requests_per_unit: 15}, descriptors: [{key: sub5, value: s, rate_limit: {unit: month, unit_multiplier: 2, requests_per_unit: 25}}]}
- {key: k6, rate_limit: {unlimited: true}, metadata: {any: [thing]}}
- {key: k7, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 70}}
- {key: k8, value: 80, rate_limit: {unit: week, requests_per_unit: 1}}
- {key: w, value: foo*, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: w, value: foo*bar*baz, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: w, value: a*b, share_threshold: true, descriptors: [{key: x, value: "*", share_threshold: true, descriptors: [{key: y, rate_limit: {unit: minute, requests_per_unit: 3}}]}]}
- {key: w, value: foobar, rate_limit: {unit: minute, requests_per_unit: 4}}
`

// Which limit a descriptor has, and the key that it counts, as the tests of envoyproxy/ratelimit have it.
func TestFind(t *testing.T) {
	t.Parallel()
	c := mustParse(t, nested)
	for descriptor, want := range map[string]string{
		"":                      "",
		"k=x":                   "",
		"k=v":                   "",
		"k=v sub=x":             "rls/d/k_v/sub 5/1s d:k=v:sub=x",
		"k=v sub=one":           "rls/d/k_v/sub_one 10/1s d:k=v:sub=one",
		"k=v sub=one more=x":    "",
		"k=v other=x":           "",
		"k2=x":                  "rls/d/k2 20/1m0s d:k2=x",
		"k2":                    "rls/d/k2 20/1m0s d:k2",
		"k2=v2":                 "rls/d/k2_v2 30/1h0m0s d:k2=v2",
		"k2=free":               "",
		"k2=x sub=y":            "",
		"k5=v5":                 "rls/d/k5_v5 15/24h0m0s d:k5=v5",
		"k5=v5 sub5=s":          "rls/d/k5_v5/sub5_s 25/1440h0m0s d:k5=v5:sub5=s",
		"k5=v5 sub5=t":          "",
		"k6=x":                  "rls/d/k6 0/0s d:k6=x",
		"k7=x":                  "rls/d/k7 70/8760h0m0s d:k7=x",
		"k8=80":                 "rls/d/k8_80 1/168h0m0s d:k8=80",
		"w=foo":                 "rls/d/w_foo--<hash> 1/1m0s d:w=foo",
		"w=foo1":                "rls/d/w_foo--<hash> 1/1m0s d:w=foo1",
		"w=foobar":              "rls/d/w_foobar 4/1m0s d:w=foobar",
		"w=xfoo":                "",
		"w=a/b x=1 y=2":         "rls/d/w_a-b/x_-/y-<hash> 3/1m0s d:w=a*b:x=*:y=2",
		"w=ab x= y=:%/=":        "rls/d/w_a-b/x_-/y-<hash> 3/1m0s d:w=a*b:x=*:y=%3A%25%2F=",
		"w=fooQbarQbaz":         "rls/d/w_foo--<hash> 1/1m0s d:w=fooQbarQbaz",
		"w=a x=1 y=2":           "",
		"W=foo":                 "",
		"k2=" + long(600):       "rls/d/k2 20/1m0s d:k2=" + long(441) + "%~<hash>",
		"k2=" + long(600) + "x": "rls/d/k2 20/1m0s d:k2=" + long(441) + "%~<hash>",
	} {
		var entries []ConfigEntry
		for pair := range strings.FieldsSeq(descriptor) {
			key, value, _ := strings.Cut(pair, "=")
			entries = append(entries, ConfigEntry{key, value})
		}
		got := ""
		if l := c.Find("d", entries); l != nil {
			got = l.Name + " " + rate(l) + " " + LimitKey("d", entries)
		}
		if hidden := hideHashes(got); hidden != want {
			t.Errorf("%s:\n%s\nwant\n%s", descriptor, hidden, want)
		}
		if c.Find("e", entries) != nil || c.Has("e") {
			t.Errorf("%s: a limit of another domain", descriptor)
		}
	}
	found := c.Find("d", []ConfigEntry{{"k", "v"}, {"sub", "one"}})
	if !found.Shadow || found.Quota || found.Label != "n" || strings.Join(found.Replaces, " ") != "a b" || found.File != "limits.yaml" || found.Line != 9 {
		t.Errorf("%+v", found)
	}
	if found := c.Find("d", []ConfigEntry{{"k2", "v2"}}); found.Shadow || !found.Quota {
		t.Errorf("%+v", found)
	}
	if found := c.Find("d", []ConfigEntry{{"k6", "x"}}); !found.Unlimited {
		t.Errorf("%+v", found)
	}
}

func long(n int) string { return strings.Repeat("l", n) }

func rate(l *ConfigLimit) string { return fmt.Sprintf("%d/%v", l.Requests, l.Period()) }

// hideHashes writes <hash> for hexadecimal digits at the end of a name and of a key.
func hideHashes(text string) string {
	words := strings.Split(text, " ")
	for i, w := range words {
		for _, digits := range []int{64, 16} {
			if cut := len(w) - digits; cut > 0 && strings.Trim(w[cut:], "0123456789abcdef") == "" && (w[cut-1] == '-' || w[cut-1] == '~') {
				words[i] = w[:cut] + "<hash>"
				break
			}
		}
	}
	return strings.Join(words, " ")
}

// No two descriptors have one key.
func TestKeysAreApart(t *testing.T) {
	t.Parallel()
	seen := map[string][]ConfigEntry{}
	texts := []string{"", "a", "b", ":", "=", "%", "/", "a=b", "a:b", "%3A", "%~", long(600), long(601)}
	for _, key := range texts {
		for _, value := range texts {
			for _, entries := range [][]ConfigEntry{{{key, value}}, {{key, value}, {"a", ""}}, {{"a", ""}, {key, value}}} {
				k := LimitKey("d", entries)
				if len(k) > 512 {
					t.Errorf("%d bytes", len(k))
				}
				other, again := seen[k]
				if again && !same(entries, other) {
					t.Errorf("%q is of %q and %q", k, entries, other)
				}
				seen[k] = entries
			}
		}
	}
}

func same(a, b []ConfigEntry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// All that is wrong is reported by file, line and field.
func TestFaults(t *testing.T) {
	t.Parallel()
	one := func(descriptor string) string { return "domain: d\ndescriptors:\n- " + descriptor }
	for text, want := range map[string]string{
		"":                                     "limits.yaml: domain: the file is empty",
		"x: [":                                 "not YAML",
		"- a":                                  "limits.yaml:1: a list: write fields, for example `domain: edge`",
		"descriptors: []":                      "limits.yaml:1: domain: it is missing",
		"domain: ''":                           "domain: it is missing",
		"domain: d\n---\ndomain: e":            "a second document",
		"domain: d\ndomains: []":               "limits.yaml:2: domains: unknown field, did you mean domain?; there are domain, descriptors",
		"domain: d\ndomain: e":                 "limits.yaml:2: domain: it stands twice, first in line 1",
		"domain: [d]":                          "domain: a list: write a text",
		"domain: d\n1: x":                      "limits.yaml:2: \"1\" in place of a field's name",
		"domain: d\ndescriptors: {}":           "descriptors: { } without quotes is a mapping: write a list",
		one("{value: v}"):                      "limits.yaml:3: key: it is missing",
		one("a"):                               "limits.yaml:3: \"a\": write fields",
		one("{key: k, ratelimit: {}}"):         "limits.yaml:3: ratelimit: unknown field, did you mean rate_limit?",
		one("{key: 'k*'}"):                     "a * stands for text in values alone",
		one("{key: k, share_threshold: true}"): "share_threshold: it is for values with a *",
		one("{key: k, value: v, share_threshold: maybe}"):                                                `share_threshold: "maybe": write true or false`,
		one("{key: k}\n- {key: k}"):                                                                      "limits.yaml:4: key: a second descriptor d, k: keep one",
		one("{key: k, value: v}\n- {key: k, value: v}"):                                                  "limits.yaml:4: key: a second descriptor d, k=v: keep one",
		one("{key: k, value: v*}\n- {key: k, value: v*}"):                                                "a second descriptor d, k=v*",
		one("{key: k, rate_limit: 5}"):                                                                   `rate_limit: "5": write fields`,
		one("{key: k, rate_limit: {}}"):                                                                  "rate_limit.unit: it is missing: write one of second, minute, hour, day, month, year, week",
		one("{key: k, rate_limit: {unit: foo, requests_per_unit: 1}}"):                                   `rate_limit.unit: "foo": write one of`,
		one("{key: k, rate_limit: {unit: minutes, requests_per_unit: 1}}"):                               `rate_limit.unit: "minutes", did you mean minute?: write one of`,
		one("{key: k, rate_limit: {unit: unknown, requests_per_unit: 1}}"):                               `rate_limit.unit: "unknown"`,
		one("{key: k, rate_limit: {unit: minute}}"):                                                      "rate_limit.requests_per_unit: it is missing: write a number; with 0 none passes",
		one("{key: k, rate_limit: {unit: minute, requests_per_unit: -1}}"):                               `rate_limit.requests_per_unit: "-1": write a whole number`,
		one("{key: k, rate_limit: {unit: minute, requests_per_unit: 4294967296}}"):                       "write a whole number from 0 to 4294967295",
		one("{key: k, rate_limit: {unit: second, requests_per_unit: 1000001}}"):                          "1000001 per second: at most 1000000 a second",
		one("{key: k, rate_limit: {unit: year, unit_multiplier: 2, requests_per_unit: 1}}"):              "a period of 2 years: at most 366 days",
		one("{key: k, rate_limit: {unit: year, unit_multiplier: 0, requests_per_unit: 1}}"):              "unit_multiplier: 0: write 1 or more",
		one("{key: k, rate_limit: {unlimited: true, unit: minute}}"):                                     "rate_limit.unit: it has no meaning beside `unlimited: true`",
		one("{key: k, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: ''}]}}"):           "rate_limit.replaces.name: it is missing",
		one("{key: k, rate_limit: {unit: day, requests_per_unit: 1, name: me, replaces: [{name: me}]}}"): `rate_limit.replaces.name: "me" is the name of this limit itself`,
		one("{key: k, rate_limit: {unit: day, requests_per_unit: 1, replaces: [me]}}"):                   "rate_limit.replaces: \"me\": write fields, for example `name: other`",
		one(strings.Repeat("{key: k, descriptors: [", 33) + strings.Repeat("]}", 33)):                    "nested deeper than 32",
	} {
		_, err := parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
	if _, err := parse(one("{key: k, rate_limit: {unit: x, requests_per_unit: y}}\n- {}")); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three faults: %v", err)
	}
}

func TestDomainsOfSeveralFiles(t *testing.T) {
	t.Parallel()
	a, b := "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]", "domain: d\ndescriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 2}}]"
	c, err := parse("a.yaml", a, "b.yaml", b)
	if err != nil || c.Find("d", []ConfigEntry{{"a", ""}}) == nil || c.Find("d", []ConfigEntry{{"b", ""}}) == nil || c.Domains() != 1 {
		t.Error(c, err)
	}
	if _, err := parse("a.yaml", a, "b.yaml", a); err == nil || !strings.Contains(err.Error(), "b.yaml:2: key: a second descriptor d, a") {
		t.Error(err)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := LoadConfig(dir); err == nil || !strings.Contains(err.Error(), "no file whose name ends in .yaml or .yml") {
		t.Error(err)
	}
	write("a.yaml", "domain: a")
	write("b.yml", "domain: b")
	write(".c.yaml", "no")
	write("d.txt", "no")
	c, err := LoadConfig(dir)
	if err != nil || c.Domains() != 2 || c.Content() == [32]byte{} {
		t.Error(c, err)
	}
	if c, err = LoadConfig(filepath.Join(dir, "a.yaml")); err != nil || c.Domains() != 1 {
		t.Error(c, err)
	}
	write("e.yaml", "domain: e\n"+strings.Repeat("#", MaxBytes))
	if _, err := LoadConfig(dir); err == nil || !strings.Contains(err.Error(), "larger than 4MiB") {
		t.Error(err)
	}
	for _, data := range [][]byte{{1}, {9, 0, 0, 0, 255, 255, 255, 255, 1}} {
		if _, err := ParseConfig(data); err == nil {
			t.Errorf("%v: no error", data)
		}
	}
}

// Aliases of aliases end before they have used up the memory.
func TestAliases(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "domain: d\ndescriptors:\n- {key: a, rate_limit: &l {unit: day, requests_per_unit: 1}}\n- {key: b, rate_limit: *l}")
	if found := c.Find("d", []ConfigEntry{{"b", "x"}}); found == nil || found.Period() != 24*time.Hour {
		t.Error(found)
	}
	var bomb strings.Builder
	bomb.WriteString("domain: d\ndescriptors:\n- {key: a0, descriptors: &x0 [{key: a, descriptors: [{key: b}]}]}\n")
	for i := 1; i < 25; i++ {
		prev := "*x" + string(rune('a'+i-1))
		if i == 1 {
			prev = "*x0"
		}
		bomb.WriteString("- {key: k" + string(rune('a'+i)) + ", descriptors: &x" + string(rune('a'+i)) + " [{key: l, descriptors: " + prev + "}, {key: m, descriptors: " + prev + "}]}\n")
	}
	if _, err := parse(bomb.String()); err == nil || !strings.Contains(err.Error(), "more than 200000 nodes of YAML") {
		t.Errorf("%.300v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(nested, "k2", "v2")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		c, err := parse(text)
		if err != nil {
			return
		}
		for _, l := range c.Limits() {
			if len(l.Name) > maxNameBytes {
				t.Errorf("name %q", l.Name)
			}
		}
		entries := []ConfigEntry{{key, value}}
		c.Find("d", entries)
		if n := len(LimitKey("d", entries)); n < 1 || n > 512 {
			t.Errorf("a key of %d bytes", n)
		}
	})
}
