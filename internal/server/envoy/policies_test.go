package envoy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-counter/weir/policy"
)

// The policies that are made say the same of descriptors as what they were made from.
func TestPoliciesSayTheSame(t *testing.T) {
	t.Parallel()
	c := mustParse(t, nested)
	file, notes, err := c.Policies()
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.Parse("made", file)
	if err != nil {
		t.Fatal(err)
	}
	if faults := set.Warnings("made"); len(faults) > 0 {
		t.Log(faults) // of policies that never apply, say
	}
	for _, descriptor := range []string{
		"k=x", "k=v", "k=v sub=x", "k=v sub=one", "k=v sub=one more=x", "k=v other=x", "k2=x", "k2=v2", "k2=free", "k2=free x=y", "k2=x sub=y",
		"k5=v5", "k5=v5 sub5=s", "k5=v5 sub5=t", "k6=x", "k7=x", "k8=80", "k8=81", "w=foo1", "w=foobar", "w=xfoo", "w=a/b x=1 y=2", "w=a/b x=1", "w=fooQbarQbaz", "w=foobar x=1 y=2", "W=foo",
	} {
		var entries []ConfigEntry
		for pair := range strings.FieldsSeq(descriptor) {
			key, value, _ := strings.Cut(pair, "=")
			entries = append(entries, ConfigEntry{key, value})
		}
		key := LimitKey("d", entries)
		want, got := "", ""
		if l := c.Find("d", entries); l != nil && !l.Unlimited {
			want = l.Name
		}
		for _, m := range set.Match(key) {
			if !strings.HasPrefix(m.Policy.Name, namePrefix+"exempt/") {
				got += m.Policy.Name
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q\n%s", key, got, want, file)
		}
	}
	one, other := set.Match("d:w=a1b:x=1:y=2"), set.Match("d:w=a2b:x=2:y=2")
	if len(one) != 1 || len(other) != 1 || one[0].Key != other[0].Key {
		t.Errorf("what counts together: %+v, %+v", one, other)
	}
	for _, want := range []string{"any interval of its length", "limits.yaml:9: replaces: no policy replaces another one: the limits a, b hold too", "limits.yaml:12: quota_mode", "a * takes one byte or more", "detailed_metric and value_to_metric are left out"} {
		if !strings.Contains(strings.Join(notes, "\n"), want) {
			t.Errorf("no note %q in\n%s", want, strings.Join(notes, "\n"))
		}
	}
}

func TestPoliciesThatCannotBe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"domain: d\ndescriptors: [{key: '{', rate_limit: {unit: day, requests_per_unit: 1}}]": "limits.yaml:2: left out: its keys have {",
		"domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 0}}]":   "one in 366 days passes",
		"domain: d": "",
	} {
		file, notes, err := mustParse(t, text).Policies()
		if err != nil || !strings.Contains(strings.Join(notes, "\n"), want) {
			t.Errorf("%s: %s, %q, %v", text, file, notes, err)
		}
	}
	var many strings.Builder
	many.WriteString("domain: d\ndescriptors:\n")
	for i := range policy.MaxPolicies + 1 {
		fmt.Fprintf(&many, "- {key: k, value: v%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
	}
	if _, _, err := mustParse(t, many.String()).Policies(); err == nil || !strings.Contains(err.Error(), "keep the limits as they are") {
		t.Error(err)
	}
}
