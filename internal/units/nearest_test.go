package units

import (
	"strings"
	"testing"
)

func TestDidYouMean(t *testing.T) {
	members := []string{"key", "limit", "n", "checks", "peek"}
	fields := []string{"name", "keys", "by", "limit", "per", "burst", "algorithm", "mode", "order", "last", "overrides"}
	for _, test := range []struct {
		known []string
		words map[string]string
	}{
		{members, map[string]string{
			"limt": "limit", "lmiit": "limit", "Limit": "limit", "limits": "limit", "kye": "key", "check": "checks", "che": "checks",
			"keys": "key", "pee": "peek", "peak": "peek", "amount": "", "m": "", "": "",
		}},
		{fields, map[string]string{"brust": "burst", "key": "keys", "algo": "algorithm", "override": "overrides", "p": "", "wombat": ""}},
		{[]string{"WEIR_MAX_AHEAD", "WEIR_RETENTION"}, map[string]string{"WEIR_MAX_AHED": "WEIR_MAX_AHEAD", "WEIR_WOMBAT": ""}},
		{[]string{"near", "nears"}, map[string]string{"nearr": "near"}}, // the first of equals
		{[]string{strings.Repeat("a", 65)}, map[string]string{strings.Repeat("a", 64) + "b": ""}},
		{nil, map[string]string{"limit": ""}},
		{[]string{""}, map[string]string{"": "", "a": ""}},
	} {
		for word, want := range test.words {
			if got := Nearest(word, test.known); got != want {
				t.Errorf("%q: got %q, want %q", word, got, want)
			}
			if want != "" {
				want = ", did you mean " + want + "?"
			}
			if got := DidYouMean(word, test.known); got != want {
				t.Errorf("%q: got %q, want %q", word, got, want)
			}
		}
	}
}

func TestSlips(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"abc", "abc", 0}, {"abc", "axc", 1}, {"abc", "acb", 1}, {"abc", "ac", 1}, {"abc", "abxc", 1},
		{"ca", "abc", 3}, {"kitten", "sitting", 3}, {"abcd", "badc", 2},
	} {
		if got, back := slips(test.a, test.b), slips(test.b, test.a); got != test.want || back != test.want {
			t.Errorf("%q, %q: %d and back %d, want %d", test.a, test.b, got, back, test.want)
		}
	}
}
