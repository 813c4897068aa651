package middleware

import (
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"
)

// Whatever a client writes into the header, proxies that append to it give the client
// away: on the same line or another, one proxy or two, in each of the ways to write it.
func FuzzClientsCannotChoose(f *testing.F) {
	for _, seed := range []string{"", "1.2.3.4", "1.2.3.4, 10.0.0.2", `for="`, `for="\`, `"`, `\`, `for=1.2.3.4;host="a,`, `for=1.2.3.4, for="`, ",", "[", "::1", "for=10.0.0.7"} {
		f.Add(seed, seed)
	}
	client := netip.MustParseAddr("203.0.113.7")
	written := map[string][][]string{ // by proxies, from the client's end
		xForwardedFor: {{"203.0.113.7"}, {"203.0.113.7:80"}, {"::ffff:203.0.113.7", "10.0.0.2"}},
		forwarded: {
			{"for=203.0.113.7"}, {`for="203.0.113.7:80"`}, {`for="[::ffff:203.0.113.7]";host="a,\"\\"`, "for=10.0.0.2"},
			{`proto=https;host="x, for=1.2.3.4";for=203.0.113.7`, `by="_\"";for="10.0.0.2:1"`},
		},
	}
	var sources []*addresses
	for header := range written {
		a, err := newAddresses(AddressOptions{Header: header, Trusted: prefixes("10.0.0.0/8")})
		if err != nil {
			f.Fatal(err)
		}
		sources = append(sources, a)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		for _, a := range sources {
			for _, elements := range written[a.header] {
				appended := strings.Join(elements, ", ")
				for _, lines := range [][]string{
					{first + "," + appended}, {first + ", " + appended}, {first, appended}, {first, second + "," + appended},
					append([]string{first, second}, elements...),
				} {
					r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{a.header: lines}}
					if got, ok := a.client(r); !ok || got != client {
						t.Fatalf("%s %q: %v, want %v", a.header, lines, got, client)
					}
				}
			}
		}
	})
}

// The parsers against naive ones, that read from the left.
func FuzzAgainstNaive(f *testing.F) {
	for _, seed := range []string{"203.0.113.7, 10.0.0.2", "10.0.0.3,10.0.0.2", "x, 10.0.0.2", "", `for=203.0.113.7;by=x, for="10.0.0.2:80"`, `for="[2001:db8::1]"`, "for=_x", "for=1.2.3.4;for=1.2.3.4", `for="1\.2.3.4"`} {
		f.Add(seed, seed)
	}
	f.Add(`0="`, `" 0`)
	var sources []*addresses
	for _, header := range []string{xForwardedFor, forwarded} {
		a, err := newAddresses(AddressOptions{Header: header, Trusted: prefixes("10.0.0.0/8", "2001:db8:1::/48")})
		if err != nil {
			f.Fatal(err)
		}
		sources = append(sources, a)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		peer := netip.MustParseAddr("10.0.0.1")
		for _, a := range sources {
			nodes, known := naiveListed, true
			if a.header == forwarded {
				nodes = naiveForwarded
				known = wellFormed.MatchString(first) && wellFormed.MatchString(second)
			}
			lines := []string{first, second}
			got, ok := a.client(&http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{a.header: lines}})
			if !ok || !got.IsValid() || got.Zone() != "" || got.Is4In6() {
				t.Fatalf("%s %q: %v %v", a.header, lines, got, ok)
			}
			if !known {
				continue
			}
			if want := naive(a, nodes(first+","+second), peer); got != want {
				t.Fatalf("%s %q: %v, naively %v", a.header, lines, got, want)
			}
		}
	})
}

// naive finds the client among nodes: invalid ones are faults.
func naive(a *addresses, nodes []netip.Addr, peer netip.Addr) netip.Addr {
	for len(nodes) > 1 && nodes[len(nodes)-1].IsValid() && a.trusts(nodes[len(nodes)-1]) {
		nodes = nodes[:len(nodes)-1]
	}
	if last := nodes[len(nodes)-1]; last.IsValid() {
		return last
	}
	return peer
}

var (
	node4 = regexp.MustCompile(`^([0-9.]+)(:([0-9]{1,5}|_[0-9A-Za-z!#$%&'*+.^_|~` + "`" + `-]+))?$`)
	node6 = regexp.MustCompile(`^\[([^\]]+)\](:([0-9]{1,5}|_[0-9A-Za-z!#$%&'*+.^_|~` + "`" + `-]+))?$`)
)

func naiveNode(s string) netip.Addr {
	addr, want6 := netip.Addr{}, false
	if m := node4.FindStringSubmatch(s); m != nil {
		addr, _ = netip.ParseAddr(m[1])
	} else if m := node6.FindStringSubmatch(s); m != nil {
		addr, _ = netip.ParseAddr(m[1])
		want6 = true
	}
	if addr.Is6() != want6 {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}

func naiveListed(text string) (nodes []netip.Addr) {
	for element := range strings.SplitSeq(text, ",") {
		element = strings.Trim(element, " \t")
		if addr, err := netip.ParseAddr(element); err == nil {
			nodes = append(nodes, addr.Unmap().WithZone(""))
		} else {
			nodes = append(nodes, naiveNode(element))
		}
	}
	return nodes
}

const (
	wordPattern   = "[0-9A-Za-z!#$%&'*+.^_|~`-]+"
	stringPattern = `"(?:[^"\\]|\\(?s:.))*"`
	pairPattern   = wordPattern + "=(?:" + wordPattern + "|" + stringPattern + ")"
	listPattern   = pairPattern + "(?:;" + pairPattern + ")*"
)

var (
	wellFormed = regexp.MustCompile("^" + listPattern + "(?:[ \t]*,[ \t]*" + listPattern + ")*$")
	aPair      = regexp.MustCompile("(" + wordPattern + ")=(" + wordPattern + "|" + stringPattern + ")(,|[ \t]|;|$)")
	anEscape   = regexp.MustCompile(`\\((?s:.))`)
)

// naiveForwarded reads lines that are well formed, from the left.
func naiveForwarded(text string) (nodes []netip.Addr) {
	var node netip.Addr
	count := 0
	for text != "" {
		m := aPair.FindStringSubmatchIndex(text)
		if m == nil || m[0] != 0 {
			return []netip.Addr{{}}
		}
		name, value := text[m[2]:m[3]], text[m[4]:m[5]]
		if strings.HasPrefix(value, `"`) {
			value = anEscape.ReplaceAllString(value[1:len(value)-1], "$1")
		}
		if strings.EqualFold(name, "for") {
			count++
			node = naiveNode(value)
		}
		text = strings.TrimLeft(text[m[5]:], " \t")
		if text == "" || text[0] == ',' {
			if count != 1 {
				node = netip.Addr{}
			}
			nodes, node, count = append(nodes, node), netip.Addr{}, 0
		}
		if text != "" {
			text = strings.TrimLeft(text[1:], " \t")
		}
	}
	return nodes
}
