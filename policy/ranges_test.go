package policy

import (
	"fmt"
	"strings"
	"testing"
)

// ranged is a policy by address, but for the fields that a test adds.
const ranged = "limits:\n  - name: a\n    keys: \"login:{user}:{addr*}\"\n    by: \"address:{addr}\"\n    limit: 5\n    per: 1m\n"

func TestRanges(t *testing.T) {
	set, err := Parse("p.yaml", []byte(ranged+`    except: ["10.0.0.0/8", "2001:db8::/32", 192.0.2.7, 0.0.0.0/1]
    overrides:
      - {cidr: 10.1.0.0/16, limit: 50}
      - {cidr: "2001:db8:1::/48", burst: 2}
      - {cidr: 198.51.100.0/24, limit: 7}
      - {cidr: 198.51.100.8, limit: 8}
      - {key: "address:198.51.100.9", limit: 9}
`))
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"10.2.3.4":               "except 10.0.0.0/8",
		"10.1.2.3":               "50, burst 50 by 10.1.0.0/16",
		"::ffff:10.1.2.3":        "50, burst 50 by 10.1.0.0/16",
		"[::ffff:10.2.3.4]:8080": "except 10.0.0.0/8",
		"10.1.2.3:8080":          "50, burst 50 by 10.1.0.0/16",
		"11.0.0.1":               "except 0.0.0.0/1",
		"128.0.0.1":              "5, burst 5",
		"2001:db8::1":            "except 2001:db8::/32",
		"2001:db8:2:3::/64":      "except 2001:db8::/32",
		"2001:db8:1:2::/64":      "5, burst 2 by 2001:db8:1::/48",
		"[2001:db8:1::7]:443":    "5, burst 2 by 2001:db8:1::/48",
		"2001:db9::1":            "5, burst 5",
		"2001::/16":              "5, burst 5",
		"192.0.2.7":              "except 192.0.2.7/32",
		"192.0.2.8":              "5, burst 5",
		"198.51.100.1":           "7, burst 7 by 198.51.100.0/24",
		"198.51.100.8":           "8, burst 8 by 198.51.100.8/32",
		"198.51.100.9":           "9, burst 9",
		"198.51.100.0/24":        "7, burst 7 by 198.51.100.0/24",
		"bob":                    "5, burst 5",
		"":                       "5, burst 5",
	} {
		m := set.Match("login:bob:" + address)[0]
		got := fmt.Sprintf("%d, burst %d", m.Limit.N, m.Limit.Burst)
		if m.Range.IsValid() {
			got += " by " + m.Range.String()
		}
		counted, is := set.CountedKey(0, "login:bob:"+address)
		if m.Except.IsValid() {
			got = "except " + m.Except.String()
		}
		if m.Except.IsValid() == is || is && counted != m.Key {
			t.Errorf("%q counts as %q, %v", address, counted, is)
		}
		if got != want {
			t.Errorf("%q has %s, want %s", address, got, want)
		}
	}
}

func TestRangeFaults(t *testing.T) {
	other := func(keys, by string) string {
		return strings.NewReplacer("login:{user}:{addr*}", keys, "address:{addr}", by).Replace(ranged)
	}
	for _, c := range []struct{ file, want string }{
		{ranged + "    except: [10.0.0.0/33]\n", `p.yaml:7: except: "10.0.0.0/33" is no range of addresses: write for example`},
		{ranged + "    except: [10.0.0.0/8/8]\n", `is no range of addresses`},
		{ranged + "    except: [\"fe80::%eth0/10\"]\n", `is no range of addresses`},
		{ranged + "    except: [lan]\n", `"lan" is no range of addresses`},
		{ranged + "    except: [10.1.2.3/8]\n", `"10.1.2.3/8" has bits behind its first 8: write 10.0.0.0/8, or 10.1.2.3 for that address alone`},
		{ranged + "    except: [\"::ffff:10.0.0.0/104\"]\n", `is of IPv4: write 10.0.0.0/8`},
		{ranged + "    except: [10.0.0.0/8,\n      10.0.0.0/8]\n", `p.yaml:8: except: 10.0.0.0/8 stands twice, first in line 7: remove one`},
		{ranged + "    except: 10.0.0.0/8\n", `except: "10.0.0.0/8": write a list`},
		{ranged + "    except: [192.0.2.7/32, 192.0.2.7]\n", `192.0.2.7/32 stands twice`},
		{ranged + "    except: [10.0.0.0/8]\n    overrides: [{cidr: 10.0.0.0/8, limit: 2}]\n", `overrides.cidr: 10.0.0.0/8 stands twice, first in line 7`},
		{ranged + "    overrides: [{cidr: 10.0.0.0/8}]\n", `overrides.limit: it is missing`},
		{ranged + "    overrides: [{cidr: 10.0.0.0/8, key: \"address:10.0.0.1\", limit: 2}]\n", `overrides.cidr: an override is for a key or for a range`},
		{other("api:{user}", "api:{user}") + "    except: [10.0.0.0/8]\n", `keys: "api:{user}": ranges need to know which part of a key is the address`},
		{other("{ip*}-{addr*}", "x{ip}") + "    except: [10.0.0.0/8]\n", `ranges need to know which part`},
		{other("login:{user}:{addr*}", "login:{user}") + "    overrides: [{cidr: 10.0.0.0/8, limit: 2}]\n", `by: "login:{user}": a range with a limit of its own needs keys`},
		{other("login:{user}:{addr*}", "a{user}{addr}") + "    overrides: [{cidr: 10.0.0.0/8, limit: 2}]\n", `with text between it and other captures`},
	} {
		_, err := Parse("p.yaml", []byte(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s in\n%s", err, c.want, c.file)
		}
	}
	for _, good := range []string{
		other("login:{user}:{addr*}", "login:{user}") + "    except: [10.0.0.0/8]\n",
		"limits: [{name: a, keys: \"ip:*\", limit: 1, per: 1s, except: [\"::/0\", 0.0.0.0/0], overrides: [{cidr: ::1, limit: 2}]}]",
	} {
		if _, err := Parse("p.yaml", []byte(good)); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// As many ranges as a file may have are read, and one more is a fault.
func TestMostRanges(t *testing.T) {
	var b strings.Builder
	b.WriteString(ranged + "    except:\n")
	for i := range MaxRanges {
		fmt.Fprintf(&b, "      - 2001:db8:%x:%x::/64\n", i>>8, i&255)
	}
	set, err := Parse("p.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if _, is := set.CountedKey(0, "login:bob:2001:db8:0:7:1::1"); is {
		t.Error("an excepted address is counted")
	}
	b.WriteString("      - 2001:db9::/64\n")
	if _, err = Parse("p.yaml", []byte(b.String())); err == nil || !strings.Contains(err.Error(), "more than 100000 ranges") {
		t.Errorf("%v", err)
	}
}
