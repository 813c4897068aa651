package admit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/policy"
)

const rangedFile = `limits:
- {name: a, keys: "ip:{addr*}", limit: 2, per: 1m, except: [10.0.0.0/8, "2001:db8::/32"], overrides: [{cidr: 10.1.0.0/16, limit: 3}, {cidr: 192.0.2.0/24, limit: 4}, {key: "ip:192.0.2.1", limit: 1}]}
- {name: user, keys: "login:{user}:{addr*}", by: "login:{user}", limit: 1, per: 1m, except: [10.0.0.0/8]}
`

// passes is how many of ten requests pass.
func (r *rig) passes(req Request) (n int) {
	r.t.Helper()
	var d Decision
	for range 10 {
		if err := r.Take([]Request{req}, &d); err != nil {
			r.t.Fatal(err)
		}
		if d.Allowed {
			n++
		}
	}
	return n
}

func TestRangesOfAddresses(t *testing.T) {
	r := newRig(t, rangedFile)
	for key, want := range map[string]int{
		"ip:198.51.100.1": 2, "ip:10.2.3.4": 10, "ip:::ffff:10.2.3.5": 10, "ip:10.1.2.3": 3, "ip:[10.1.2.4]:80": 3, "ip:192.0.2.9": 4, "ip:192.0.2.1": 1,
		"ip:2001:db8:1:2::/64": 10, "ip:2001:db7:1:2::/64": 2, "ip:-": 2,
		"login:bob:192.0.2.1": 1, "login:ann:10.0.0.1": 10,
	} {
		if got := r.passes(Request{Key: key, N: 1}); got != want {
			t.Errorf("%d of %s pass, want %d", got, key, want)
		}
	}
	// By name, an excepted key has no limit; a key that is none of the policy's is an error.
	if got := r.passes(Request{Key: "ip:10.2.3.4", Limit: "a", N: 1}); got != 10 {
		t.Errorf("%d pass by name", got)
	}
	var d Decision
	if err := r.Take([]Request{{Key: "x:10.2.3.4", Limit: "a", N: 1}}, &d); err == nil {
		t.Error("a key that is none of the policy's passes")
	}
	// An excepted key is not one that no policy is for.
	for key, want := range map[string][]string{"ip:10.2.3.4": {"a"}, "login:ann:10.0.0.1": {"user"}, "ip:192.0.2.9": nil, "nobody": nil} {
		if err := r.Peek([]Request{{Key: key, N: 1}}, &d); err != nil || !slices.Equal(d.Excepted, want) || d.Unmatched != (key == "nobody") {
			t.Errorf("%s: excepted by %v, unmatched %v, %v", key, d.Excepted, d.Unmatched, err)
		}
	}
	// Changes of a counted key know its limit.
	made, ok, err := r.Grant("a", "ip:192.0.2.9", 5, time.Unix(0, r.now.Load()).Add(time.Minute))
	if err != nil || !ok || made.Limit.Burst != 4 {
		t.Errorf("%+v, %v, %v", made, ok, err)
	}
	if r.Full("a", "ip:10.1.2.9") || !r.Full("a", "ip:10.1.2.3") {
		t.Error("what is full is not as the range's limit says")
	}
}

// One decision with a policy of 100,000 ranges, beside one without.
func BenchmarkRanges(b *testing.B) {
	var except, overrides strings.Builder
	for i := range policy.MaxRanges / 2 {
		fmt.Fprintf(&except, "  - 10.%d.%d.%d/32\n", i>>16, i>>8&255, i&255)
		fmt.Fprintf(&overrides, "  - {cidr: 2001:db8:%x:%x::/64, limit: %d}\n", i>>8, i&255, 20_000_000*(1+i%3))
	}
	const one = "limits:\n- name: a\n  keys: \"ip:{addr*}\"\n  limit: 60000000\n  per: 1m\n"
	for _, form := range []struct{ name, file, key string }{
		{"none", one, "ip:2001:db8:7:9::/64"},
		{"100000/override", one + "  except:\n" + except.String() + "  overrides:\n" + overrides.String(), "ip:2001:db8:7:9::/64"},
		{"100000/except", one + "  except:\n" + except.String() + "  overrides:\n" + overrides.String(), "ip:10.0.3.7"},
	} {
		b.Run(form.name, func(b *testing.B) {
			r := newRig(b, form.file)
			reqs := []Request{{Key: form.key, N: 1}}
			var d Decision
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Take(reqs, &d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
