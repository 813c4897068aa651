package policy

import (
	"fmt"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	set, err := Parse("p.yaml", []byte(`
limits:
  - {name: user, keys: "login:{user}:*", by: "login:{user}", limit: 5, per: 1m, overrides: [{key: "login:root", limit: 9}]}
  - {name: stop, keys: "login:*", by: "all", limit: 7, per: 1m, last: true}
  - {name: never, keys: "login:*", limit: 8, per: 1m}
  - {name: path, keys: "url:/{dir}/", limit: 8, per: 1m}
`))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"login:bob:x":             "user login:bob 5, stop all 7",
		"login:root:x":            "user login:root 9, stop all 7",
		"login:a/b:x":             "stop all 7; near user",
		"login:bob":               "stop all 7",
		"url:/a/":                 "path url:/a/ 8",
		"url:/a/b/":               "; near path",
		"url://":                  "; near path",
		"url:/a/b":                "",
		"x":                       "",
		strings.Repeat("x", 1000): "",
	} {
		var got []string
		for _, m := range set.Match(key) {
			got = append(got, fmt.Sprintf("%s %s %d", m.Policy.Name, m.Key, m.Limit.N))
		}
		text := strings.Join(got, ", ")
		if p, ok := set.Near(key); ok {
			text += "; near " + p.Name
		}
		if text != want {
			t.Errorf("%s: %s, want %s", key, text, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	for rest, want := range map[string]string{
		`{name: a, keys: "ip:{x}", limit: 1, per: 1m}`:             "{x} ends at a `:`",
		`{name: a, keys: "login:{user}:{ip}", limit: 1, per: 1m}`:  "write {ip*}",
		`{name: a, keys: "login:{user}:{ip*}", limit: 1, per: 1m}`: "",
		`{name: a, keys: "ip:*", limit: 1, per: 1m}`:               "",
		`{name: a, keys: "trip:{x}", limit: 1, per: 1m}`:           "",
		`{name: b, keys: "all:x:{y}", limit: 1, per: 1m}`:          "before comes before b",
		`{name: b, keys: "all:*", limit: 1, per: 1m, order: -1}`:   "",
		`{name: b, keys: "some:{y}:z", limit: 1, per: 1m}`:         "some comes before b",
		`{name: b, keys: "some:{y}:*", limit: 1, per: 1m}`:         "",
	} {
		set, err := Parse("p.yaml", []byte("limits:\n  - {name: before, keys: \"all:*\", limit: 1, per: 1m, last: true}\n"+
			"  - {name: some, keys: \"some:{y}:z\", limit: 1, per: 1m, last: true}\n  - "+rest))
		if err != nil {
			t.Fatal(err)
		}
		got := set.Warnings("p.yaml")
		if len(got) > 1 || (len(got) == 1) != (want != "") || want != "" && (!strings.Contains(got[0].String(), want) || !strings.HasPrefix(got[0].String(), "p.yaml:4: ")) {
			t.Errorf("%s: %v, want %q", rest, got, want)
		}
	}
}
