package pattern

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		keys, by, key string
		want          string // the counted key; "-": no match
	}{
		{"login:bob", "", "login:bob", "login:bob"},
		{"login:bob", "", "login:bobby", "-"},
		{"login:*", "", "login:bob", "login:bob"},
		{"login:*", "", "login:", "login:"},
		{"login:*", "", "logi", "-"},
		{"*", "", "anything:/at all", "anything:/at all"},
		{"*:login", "", "bob:login", "bob:login"},
		{"*:login", "", ":login", ":login"},
		{"*:login", "", "login", "-"},
		{"a*b*c", "", "abc", "abc"},
		{"a*b*c", "", "ab", "-"},
		{"a*ba", "", "aba", "aba"},
		{"ab*ba", "", "aba", "-"}, // the ends may not share a byte
		{"login:{user}", "u:{user}", "login:bob", "u:bob"},
		{"login:{user}", "u:{user}", "login:", "-"},
		{"login:{user}", "u:{user}", "login:bob:x", "-"},
		{"login:{user}", "u:{user}", "login:a/b", "-"},
		{"login:{user}:*", "login:{user}", "login:bob:10.0.0.1", "login:bob"},
		{"login:{user}:*", "login:{user}:", "login:bob:10.0.0.1", "login:bob:"},
		{"{a}:{b}", "{b}:{a}", "x:y", "y:x"},
		{"{a}:{b}", "{b}{b}{a}", "x:y", "yyx"},
		{"{a}:{b}", "all", "x:y", "all"},
		{"{a}-{b}", "{a}", "x-y-z", "x"}, // as little as it can, from the left
		{"{a}-{b}", "{b}", "x-y-z", "y-z"},
		{"{a}-{b}", "{a}", "-y-z", "-y"}, // one byte at least
		{"{a}.txt", "{a}", "x.txt.txt", "x.txt"},
		{"*-{b}", "{b}", "p-q:r-s", "s"}, // the first - leads nowhere
		{"*/{id}/x*", "{id}", "/a/b/x/x", "b"},
		{"url:*/{id}.jpg", "{id}", "url:/a/b/7.jpg", "7"},
		{"login:{user*}", "u:{user}", "login:a/b:c", "u:a/b:c"}, // whatever there is
		{"login:{user*}", "u:{user}", "login:", "u:"},
		{"login:{user*}:{addr}", "login:{user}", "login:corp/bob:1.2.3.4", "login:corp/bob"},
		{"login:{user*}:{addr}", "login:{user}", "login:corp:bob:1.2.3.4", "login:corp:bob"},
		{"login:{user*}:{addr}", "login:{user}", "login::1.2.3.4", "login:"},
		{"login:{user*}:{addr*}", "login:{user}", "login:corp:bob:1.2.3.4", "login:corp"}, // as little as it can
		{"login:{user}:{addr*}", "{addr}/{user}", "login:bob:2001:db8::1", "2001:db8::1/bob"},
		{"ip:{addr*}", "a:{addr}", "ip:2001:db8::1", "a:2001:db8::1"},
		{"ip:{addr*}/{rest*}", "{addr}-{rest}", "ip:::1//x", "::1-/x"},
		{"k:{ü}", "", "", "bad: {ü}: between { and }"},
		{"k:{név", "", "", "bad: a { without a }"},
		{"k}", "", "", "bad: a } without a {"},
		{"k:{}", "", "", "bad: {}: between { and }"},
		{"k:{a}{b}", "", "", "bad: nothing stands between {a} and {b}"},
		{"k:**", "", "", "bad: nothing stands between * and *"},
		{"k:{a}*", "", "", "bad: nothing stands between {a} and *"},
		{"k:{a*}{b}", "", "", "bad: nothing stands between {a*} and {b}"},
		{"k:{*}", "", "", "bad: {*}: between { and }"},
		{"k:{a**}", "", "", "bad: {a**}: between { and }"},
		{"{a}:{a}", "", "", "bad: {a} stands twice"},
		{"{a}:{a*}", "", "", "bad: {a} stands twice"},
		{"u:{user*}", "{user*}", "", "bad: {user*}: the * stands in keys alone: write {user}"},
		{"u:{user*}", "{user}", "", "bad: it makes an empty key when its captures take nothing"},
		{"u:{user*}", "u:{usr}", "", "bad: {usr} is not a capture of keys, did you mean user?; keys has {user*}"},
		{"", "", "", "bad: 0 bytes"},
		{strings.Repeat("x", MaxPatternBytes+1), "", "", "bad: 257 bytes"},
		{strings.Repeat("x*", MaxWildcards+1), "", "", "bad: 9 wildcards"},
		{"u:{user}", "{usr}", "", "bad: {usr} is not a capture of keys, did you mean user?; keys has {user}"},
		{"u:*", "{user}", "", "bad: {user} is not a capture of keys; keys has no captures"},
		{"u:*", "u:*", "", "bad: a * has no name"},
		{"u:*", "u:{", "", "bad: a { without"},
	} {
		got := countedKey(c.keys, c.by, c.key)
		if strings.HasPrefix(c.want, "bad: ") && strings.HasPrefix(got, c.want) {
			continue
		}
		if got != c.want {
			t.Errorf("keys %q by %q, key %q: counted %q, want %q", c.keys, c.by, c.key, got, c.want)
		}
	}
}

func countedKey(keys, by, key string) string {
	p, err := Parse(keys)
	var tmpl Template
	if err == nil && by != "" {
		tmpl, err = ParseTemplate(by, &p)
	}
	if err != nil {
		return "bad: " + err.Error()
	}
	var took Captures
	if !p.Match(key, &took) {
		return "-"
	}
	return tmpl.Key(key, &took)
}

// checkMatch holds a pattern, and a template of all its captures, against naive.
func checkMatch(t *testing.T, keys, by, key string) {
	p, err := Parse(keys)
	if err != nil || len(key) > engine.MaxKeyBytes {
		return
	}
	want, wantOK := naive(keys, key)
	var took Captures
	ok := p.Match(key, &took)
	if ok != wantOK {
		t.Fatalf("keys %q, key %q: match %v, want %v", keys, key, ok, wantOK)
	}
	if !ok {
		return
	}
	if !strings.HasPrefix(key, p.Prefix()) {
		t.Fatalf("keys %q fits %q, which lacks its prefix", keys, key)
	}
	for i, w := range p.wild {
		if got := key[took[i].from:took[i].to]; w.name != "" && got != want[w.name] {
			t.Fatalf("keys %q, key %q: %v is %q, want %q", keys, key, w, got, want[w.name])
		}
	}
	tmpl, err := ParseTemplate(by, &p)
	if err != nil {
		return
	}
	made := by
	for name, value := range want { // no value holds a brace that is a capture: see alphabet
		made = strings.ReplaceAll(made, "{"+name+"}", value)
	}
	if got := tmpl.Key(key, &took); got != made && !strings.ContainsAny(key, "{}") {
		t.Fatalf("keys %q by %q, key %q: counted %q, want %q", keys, by, key, got, made)
	} else if !tmpl.CanMake(got) {
		t.Fatalf("keys %q by %q made %q of key %q, and says it can't", keys, by, got, key)
	}
}

// Few letters, so that patterns fit often, and in several ways.
func TestMatchAsTheNaiveModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	words := []string{"a", "b", ":", "/", "ab", "a:", "*", "{x}", "{y}", "{z}", "{x*}", "{y*}"}
	pick := func(most int, from []string) string {
		var b strings.Builder
		for range rng.IntN(most) {
			b.WriteString(from[rng.IntN(len(from))])
		}
		return b.String()
	}
	for range 200_000 {
		keys := pick(9, words)
		by := pick(5, words)
		if rng.IntN(2) == 0 && keys != "" { // the beginning of keys: cut, not built
			by = keys[:rng.IntN(len(keys)+1)]
		}
		checkMatch(t, keys, by, pick(14, words[:6]))
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("login:{user}:*", "login:{user}", "login:bob:1.2.3.4")
	f.Add("*-{b}", "{b}", "p-q:r-s")
	f.Add("a*b*c*d", "a", "abcbcdbcd")
	f.Add("login:{user*}:{addr}", "login:{user}", "login:corp/bob::1")
	f.Add("{a}-{b}/{c}", "{c}{a}", "x-y-z/w")
	f.Fuzz(func(t *testing.T, keys, by, key string) {
		// The model takes exponential time; that is what match is for.
		if strings.Count(keys, "*")+strings.Count(keys, "{") > 4 || len(key) > 40 {
			return
		}
		checkMatch(t, keys, by, key)
	})
}

// The patterns that take a backtracking matcher ages.
func TestMatchTakesNoLonger(t *testing.T) {
	var took Captures
	for _, keys := range []string{"*a*a*a*a*a*a*a*ab", "{a}a{b}a{c}a{d}a{e}a{f}a{g}a{h}b", "*a{b}a*a{d}a*a{f}a*a{h}b", "*a*a*a*a*a*a*a{h}:b",
		"{a*}a{b*}a{c*}a{d*}a{e*}a{f*}a{g*}a{h*}ab", "{a*}a{b}a*a{d}a{e*}a{f}a*a{h}b"} {
		p, err := Parse(keys)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{strings.Repeat("a", engine.MaxKeyBytes), strings.Repeat("aaaaaaaaaaaaaaa:", engine.MaxKeyBytes/16)} {
			key = key[:len(key)-1] + "b"
			each := time.Hour
			for range 10 { // the machine may be busy with other things for most of them
				start := time.Now()
				p.Match(key, &took)
				each = min(each, time.Since(start))
			}
			if each > time.Millisecond {
				t.Errorf("keys %q: %v for one key", keys, each)
			}
		}
	}
}

// A key that canMake refuses is made of no request's key, and the slips that people make
// are refused.
func TestCanMake(t *testing.T) {
	for _, c := range []struct {
		keys, by, key string
		want          bool
	}{
		{"login:{user}:*", "login:{user}", "login:root", true},
		{"login:{user}:*", "login:{user}", "login:root:*", false},
		{"login:{user}:*", "login:{user}", "login:root:1.2.3.4", false},
		{"login:{user}:*", "login:{user}", "login:a/b", false},
		{"login:{user}:*", "login:{user}", "login:", false},
		{"login:{user}:*", "login:{user}", "root", false},
		{"login:{user}:*", "all", "all", true},
		{"login:{user}:*", "all", "al", false},
		{"login:{user*}:{ip}", "login:{user}", "login:a/b", true},
		{"login:{user*}:{ip}", "login:{user}", "login:", true},
		{"login:{user*}:{ip}", "login:{user}", "logi", false},
		{"{a}:{b}", "{b}/{a}", "x/y", true},
		{"{a}:{b}", "{b}/{a}", "x/y/z", false},
		{"{a}:{b}", "{b}{a}", "xy", true},
		{"{a}:{b}", "{b}{a}", "x", false},
		{"{a}:{b}", "{b}x{a}x", "xxxx", true},
	} {
		p, err := Parse(c.keys)
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := ParseTemplate(c.by, &p)
		if err != nil {
			t.Fatal(err)
		}
		if got := tmpl.CanMake(c.key); got != c.want {
			t.Errorf("keys %q by %q: can make %q: %v, want %v", c.keys, c.by, c.key, got, c.want)
		}
	}
}
