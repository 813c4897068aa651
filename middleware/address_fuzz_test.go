package middleware

import (
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Whatever a client writes into the header, proxies that append to it give the client
// away: on the same line or another, one proxy or two, in each of the ways to write it.
func FuzzClientsCannotChoose(f *testing.F) {
	for _, seed := range []string{"", "1.2.3.4", "1.2.3.4, 10.0.0.2", `"`, `\`, ",", "[", "::1"} {
		f.Add(seed, seed)
	}
	client := netip.MustParseAddr("203.0.113.7")
	written := [][]string{{"203.0.113.7"}, {"203.0.113.7:80"}, {"::ffff:203.0.113.7", "10.0.0.2"}} // by proxies, from the client's end
	a, err := newAddresses(AddressOptions{Trusted: prefixes("10.0.0.0/8")})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		for _, elements := range written {
			appended := strings.Join(elements, ", ")
			for _, lines := range [][]string{
				{first + "," + appended}, {first + ", " + appended}, {first, appended}, {first, second + "," + appended},
				append([]string{first, second}, elements...),
			} {
				r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{forwardedFor: lines}}
				if got, ok := a.client(r); !ok || got != client {
					t.Fatalf("%q: %v, want %v", lines, got, client)
				}
			}
		}
	})
}

// The parser against a naive one, that reads from the left.
func FuzzAgainstNaive(f *testing.F) {
	for _, seed := range []string{"203.0.113.7, 10.0.0.2", "10.0.0.3,10.0.0.2", "x, 10.0.0.2", "", "[2001:db8::1]", "[2001:db8::1]:80", "10.0.0.2:80", "[1.2.3.4]:1"} {
		f.Add(seed, seed)
	}
	a, err := newAddresses(AddressOptions{Trusted: prefixes("10.0.0.0/8", "2001:db8:1::/48")})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		peer, lines := netip.MustParseAddr("10.0.0.1"), []string{first, second}
		got, ok := a.client(&http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{forwardedFor: lines}})
		if !ok || !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Fatalf("%q: %v %v", lines, got, ok)
		}
		if want := naive(a, naiveListed(first+","+second), peer); got != want {
			t.Fatalf("%q: %v, naively %v", lines, got, want)
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
	node4 = regexp.MustCompile(`^([0-9.]+)(:[0-9]+)?$`)
	node6 = regexp.MustCompile(`^\[([^\]]+)\](:[0-9]+)?$`)
)

// naiveNode reads an address with a port or in brackets.
func naiveNode(s string) netip.Addr {
	addr, want6 := netip.Addr{}, false
	m := node4.FindStringSubmatch(s)
	if m == nil {
		m, want6 = node6.FindStringSubmatch(s), true
	}
	if m == nil {
		return addr
	}
	if _, err := strconv.ParseUint(strings.TrimPrefix(m[2], ":"), 10, 16); m[2] != "" && err != nil {
		return addr
	}
	addr, _ = netip.ParseAddr(m[1])
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
