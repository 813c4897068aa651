package policy

import (
	"strings"
	"testing"
)

// A policy that is put by API is wrong in the words of the file.
func TestParsePolicy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"keys": "a:*", "limit": 5, "per": "1m"}`:               "",
		"name: login\nkeys: \"a:*\"\nlimit: 5\nper: 1m\n":        "",
		`{"keys": "a:*", "max": 5}`:                              "",
		"keys: \"a:*\"\nlimit: 5\nper: 1q\n":                     "login:3: per: ",
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
