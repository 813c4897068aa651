package middleware

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(list ...string) (all []netip.Prefix) {
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

func TestByAddress(t *testing.T) {
	const (
		v4   = "address:203.0.113.7"
		peer = "address:10.0.0.1"
	)
	for _, test := range []struct {
		name  string
		peer  string
		lines []string
		want  string
	}{
		{"no header", "203.0.113.7:99", nil, v4},
		{"IPv6 is a network", "[2001:db8:1:2:3:4:5:6]:99", nil, "address:2001:db8:1:2::/64"},
		{"IPv4 in IPv6", "[::ffff:203.0.113.7]:99", nil, v4},
		{"a zone is this machine's", "[fe80::1%eth0]:99", nil, "address:fe80::/64"},
		{"an untrusted peer is not believed", "203.0.113.7:99", []string{"198.51.100.1"}, v4},
		{"an untrusted peer in a trusted-looking chain", "203.0.113.7:99", []string{"198.51.100.1, 10.0.0.1"}, v4},
		{"a trusted peer without the header", "10.0.0.1:99", nil, peer},

		{"one proxy", "10.0.0.1:99", []string{"203.0.113.7"}, v4},
		{"two proxies", "10.0.0.1:99", []string{"203.0.113.7, 10.0.0.2"}, v4},
		{"a spoofed address", "10.0.0.1:99", []string{"198.51.100.1, 203.0.113.7"}, v4},
		{"a spoofed chain", "10.0.0.1:99", []string{"198.51.100.1, 10.0.0.9, 203.0.113.7, 10.0.0.2"}, v4},
		{"a spoofed line of its own", "10.0.0.1:99", []string{"198.51.100.1", "203.0.113.7"}, v4},
		{"spoofed rubbish", "10.0.0.1:99", []string{"\"';--,,,, 203.0.113.7,10.0.0.2"}, v4},
		{"all trusted: who began", "10.0.0.1:99", []string{"10.0.0.3, 10.0.0.2"}, "address:10.0.0.3"},
		{"the peer in IPv6", "[::ffff:10.0.0.1]:99", []string{"203.0.113.7"}, v4},
		{"a trusted IPv4 in IPv6", "10.0.0.1:99", []string{"203.0.113.7, ::ffff:10.0.0.2"}, v4},
		{"a trusted network in IPv6", "192.0.2.9:99", []string{"203.0.113.7"}, v4},
		{"a trusted IPv6", "[2001:db8:ffff::1]:99", []string{"203.0.113.7"}, v4},
		{"the client in IPv6", "10.0.0.1:99", []string{"2001:db8::1"}, "address:2001:db8::/64"},
		{"ports", "10.0.0.1:99", []string{"203.0.113.7:5, [::ffff:10.0.0.2]:6"}, v4},
		{"brackets", "10.0.0.1:99", []string{"[2001:db8::1]"}, "address:2001:db8::/64"},

		{"an empty line", "10.0.0.1:99", []string{""}, peer},
		{"no address", "10.0.0.1:99", []string{"unknown"}, peer},
		{"an empty end", "10.0.0.1:99", []string{"198.51.100.1,"}, peer},
		{"an empty last line", "10.0.0.1:99", []string{"198.51.100.1", ""}, peer},
		{"a fault before the client", "10.0.0.1:99", []string{"198.51.100.1, x, 10.0.0.2"}, peer},
		{"a wrong port", "10.0.0.1:99", []string{"203.0.113.7:99999999"}, peer},
		{"a word after brackets", "10.0.0.1:99", []string{"[2001:db8::1]x"}, peer},
		{"a network", "10.0.0.1:99", []string{"203.0.113.0/24"}, peer},

		{"a Unix socket", "@", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := ByAddress(AddressOptions{Trusted: prefixes("10.0.0.0/8", "2001:db8:ffff::/48", "::ffff:192.0.2.0/120")})
			if k.err != nil {
				t.Fatal(k.err)
			}
			r := &http.Request{RemoteAddr: test.peer, Header: http.Header{
				forwardedFor: test.lines, "Forwarded": {"for=198.51.100.1"}, "X-Real-Ip": {"198.51.100.1"},
			}}
			if got, ok := k.read(r); got != test.want || ok != (test.want != "") {
				t.Errorf("%q from %s: key %q, want %q", test.lines, test.peer, got, test.want)
			}
		})
	}
}

func TestIPv6Bits(t *testing.T) {
	for bits, want := range map[int]string{
		0: "address:2001:db8:1:2::/64", 48: "address:2001:db8:1::/48", 56: "address:2001:db8:1::/56", 128: "address:2001:db8:1:2:3:4:5:6",
	} {
		r := &http.Request{RemoteAddr: "[2001:db8:1:2:3:4:5:6]:1"}
		if got, _ := ByAddress(AddressOptions{IPv6Bits: bits}).read(r); got != want {
			t.Errorf("%d bits: %s, want %s", bits, got, want)
		}
	}
}

func TestAddressOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]AddressOptions{
		"-1 bits":          {IPv6Bits: -1},
		"129 bits":         {IPv6Bits: 129},
		"trusted network":  {Trusted: []netip.Prefix{{}}},
		"MustParsePrefix(": {Trusted: []netip.Prefix{netip.PrefixFrom(netip.Addr{}, 8)}},
	} {
		if err := ByAddress(o).check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one of %q", o, err, want)
		}
	}
}
