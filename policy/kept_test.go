package policy

import (
	"strings"
	"testing"

	"github.com/weir-counter/weir"
)

func one(t *testing.T, name, text string, version uint64) *Set {
	t.Helper()
	s, err := ParsePolicy(name, []byte(text), version)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A policy that is put by API is wrong in the words of the file.
func TestParsePolicy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"keys": "a:*", "limit": 5, "per": "1m"}`:               "",
		"name: login\nkeys: \"a:*\"\nlimit: 5\nper: 1m\n":        "",
		`{"keys": "a:*", "max": 5}`:                              "",
		"keys: \"a:*\"\nlimit: 5\nper: 1y\n":                     "login:3: per: ",
		"keys: \"a:*\"\nlimt: 5\nper: 1m\n":                      "login:2: limt: unknown field, did you mean limit?",
		`{"name": "other", "keys": "a:*", "limit": 5, "per": 1}`: `login:1: name: "other", and it is put as "login"`,
		"limits:\n- {name: login}\n":                             "login:1: limits: this is a file",
		"- a\n":                                                  "login:1: a list: write the fields of one policy",
		"":                                                       "login: it is empty",
		"# nothing\n":                                            "login",
		"a: [":                                                   "login:",
	} {
		s, err := ParsePolicy("login", []byte(text), 7)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			} else if v, ok := s.VersionOf("login"); !ok || v != 7 {
				t.Errorf("%s: version %d, %v", text, v, ok)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := ParsePolicy("a b", []byte(`{"keys": "a:*", "limit": 5, "per": "1m"}`), 1); err == nil || !strings.Contains(err.Error(), "letters, digits") {
		t.Errorf("a name that can't be: %v", err)
	}
}

// Policies of the API stand beside those of the file, behind those of the same order; of one name the file's is in use, or the API's.
func TestKeep(t *testing.T) {
	t.Parallel()
	engine, err := weir.New(weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	file := mustParse(t, "limits:\n  - {name: a, keys: \"k:*\", limit: 1, per: 1h}\n  - {name: b, keys: \"k:*\", limit: 2, per: 1h}\n")
	live, err := NewLive(engine, file)
	if err != nil {
		t.Fatal(err)
	}
	limits := func() string {
		var text []string
		for _, p := range live.Set().Policies() {
			text = append(text, p.Name+weirLimit(p.Limit.N))
		}
		return strings.Join(text, " ")
	}
	kept := Join(one(t, "a", `{keys: "k:*", limit: 7, per: 1h}`, 3), one(t, "c", `{keys: "k:*", limit: 8, per: 1h}`, 4), one(t, "first", `{keys: "k:*", limit: 9, per: 1h, order: -1}`, 5))
	for _, want := range []struct {
		kept  *Set
		first bool
		is    string
	}{
		{kept, false, "first9 a1 b2 c8"},
		{kept, true, "first9 b2 a7 c8"},
		{nil, true, "a1 b2"},
	} {
		if err := live.Keep(want.kept, want.first); err != nil {
			t.Fatal(err)
		}
		if got := limits(); got != want.is {
			t.Errorf("first %v: %s, want %s", want.first, got, want.is)
		}
	}
	if err := live.Keep(kept, false); err != nil {
		t.Fatal(err)
	}
	if err := live.Replace(mustParse(t, "limits: [{name: c, keys: \"k:*\", limit: 2, per: 1h}]")); err != nil {
		t.Fatal(err)
	}
	if got := limits(); got != "first9 c2 a7" {
		t.Errorf("after another file: %s", got)
	}
	global := one(t, "g", `{keys: "k:*", limit: 7, per: 1h, where: global, regions: {eu: 50%}}`, 3)
	if err := live.Fits(global); err == nil {
		t.Error("a limit over regions on a server of none fits")
	}
	if err := live.Keep(global, false); err == nil || limits() != "first9 c2 a7" {
		t.Errorf("%v, and then %s", err, limits())
	}
}

func weirLimit(n uint64) string { return string(rune('0' + n)) }
