package middleware

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Both headers are lists that each proxy appends to, so they are read from the right:
// what trusted proxies wrote is found whatever stands before it. Read from the left, a
// quote that a client opens and does not close would swallow what they wrote.

// lastListed cuts the last element off a line of X-Forwarded-For.
func lastListed(line string) (rest, element string, more bool) {
	comma := strings.LastIndexByte(line, ',')
	if comma < 0 {
		return "", trim(line), false
	}
	return line[:comma], trim(line[comma+1:]), true
}

// listedNode reads an element of X-Forwarded-For: an address, and maybe a port.
func listedNode(element string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(element); err == nil {
		return plain(addr), true
	}
	return nodeAddress(element)
}

// lastElement cuts the last element off a line of Forwarded: a comma within a quoted
// string is none. It runs from the right, where a quote is escaped if an odd number of
// backslashes stand before it.
func lastElement(line string) (rest, element string, more bool) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch c := line[i]; {
		case c == '"' && !escaped(line[:i]):
			quoted = !quoted
		case c == ',' && !quoted:
			return line[:i], trim(line[i+1:]), true
		}
	}
	return "", trim(line), false
}

func escaped(before string) bool {
	return (len(before)-len(strings.TrimRight(before, `\`)))%2 == 1
}

// forwardedNode reads the for= of an element of Forwarded, such as
// for="[2001:db8::1]:4711";proto=https. A node that is unknown or hides its name has no
// address. Of values without quotes it takes more than the RFC does: the colons of
// ports, which proxies write.
func forwardedNode(element string) (addr netip.Addr, ok bool) {
	found := false
	for rest := element; rest != ""; {
		if after, empty := strings.CutPrefix(rest, ";"); empty {
			rest = trim(after)
			continue
		}
		var name, value string
		if name, value, rest, ok = cutPair(rest); !ok {
			return netip.Addr{}, false
		}
		if !strings.EqualFold(name, "for") {
			continue
		}
		if found {
			return netip.Addr{}, false
		}
		found = true
		if addr, ok = nodeAddress(value); !ok {
			return netip.Addr{}, false
		}
	}
	return addr, found
}

// cutPair cuts the first name=value off an element; what is left is empty or begins
// with a semicolon.
func cutPair(s string) (name, value, rest string, ok bool) {
	name, s, ok = strings.Cut(s, "=")
	if !ok || !token(name) {
		return "", "", "", false
	}
	if strings.HasPrefix(s, `"`) {
		value, rest, ok = unquote(s)
		rest = trim(rest)
		return name, value, rest, ok && (rest == "" || rest[0] == ';')
	}
	end := strings.IndexByte(s, ';')
	if end < 0 {
		end = len(s)
	}
	value = trim(s[:end])
	return name, value, s[end:], value != "" && !strings.ContainsAny(value, "\" \t")
}

// unquote reads the quoted string that s begins with, and returns what follows it.
func unquote(s string) (value, rest string, ok bool) {
	var text strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return text.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
			fallthrough
		default:
			text.WriteByte(s[i])
		}
	}
	return "", "", false
}

// nodeAddress reads 192.0.2.1, 192.0.2.1:4711, [2001:db8::1] or [2001:db8::1]:4711.
func nodeAddress(node string) (netip.Addr, bool) {
	if inner, port, ok := strings.Cut(strings.TrimPrefix(node, "["), "]"); ok && strings.HasPrefix(node, "[") {
		addr, err := netip.ParseAddr(inner)
		ok = err == nil && addr.Is6() && (port == "" || port[0] == ':' && validPort(port[1:]))
		return plain(addr), ok
	}
	host, port, hasPort := strings.Cut(node, ":")
	addr, err := netip.ParseAddr(host)
	return addr, err == nil && addr.Is4() && (!hasPort || validPort(port))
}

// validPort is a number, or the name that a proxy hides it behind.
func validPort(port string) bool {
	if hidden, ok := strings.CutPrefix(port, "_"); ok {
		return token(hidden)
	}
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	return len(port) >= 1 && len(port) <= 5
}

// token is a word of RFC 9110.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

func trim(s string) string { return strings.Trim(s, " \t") }

// AddressOptions say which address a client is known by. The zero value is right
// for a server that clients connect to without a proxy.
type AddressOptions struct {
	// Trusted are the addresses of your own proxies. The header is read only of a
	// request that comes from one of them, and only as far as they wrote it: from its
	// right end to the first address that is not trusted, the client. What stands
	// left of that the client may have written. None: no header is read.
	//
	// A network that clients can send from must not be in here.
	Trusted []netip.Prefix

	// Header is the one that the trusted proxies append to: "X-Forwarded-For", the
	// default, or "Forwarded" (RFC 7239). No other is read: a proxy that keeps one of
	// them passes on whatever a client wrote into the other.
	Header string

	// IPv6Bits is how much of an IPv6 address makes the key, 1 to 128 bits. Default
	// 64: a client has at least so large a network for itself, and would have 2^64
	// allowances with all bits.
	IPv6Bits int
}

const (
	xForwardedFor = "X-Forwarded-For"
	forwarded     = "Forwarded"
)

// ByAddress is the key "address:" with the client's address: address:203.0.113.7, or
// address:2001:db8::/64 for IPv6. An IPv4 address in an IPv6 one is IPv4. A header
// with a fault in the part that counts is not believed at all: the key is the peer's
// address then, the proxy's own. There is no key for a peer without an IP address,
// such as that of a Unix socket.
func ByAddress(o AddressOptions) Key {
	a, err := newAddresses(o)
	if err != nil {
		return Key{err: err}
	}
	return Key{of: a.key}
}

// addresses are AddressOptions made ready.
type addresses struct {
	trusted  []netip.Prefix // IPv4 as such, masked
	header   string         // canonical
	ipv6Bits int
}

func newAddresses(o AddressOptions) (*addresses, error) {
	a := &addresses{header: http.CanonicalHeaderKey(o.Header), ipv6Bits: o.IPv6Bits}
	if a.header == "" {
		a.header = xForwardedFor
	}
	if a.header != xForwardedFor && a.header != forwarded {
		return nil, fmt.Errorf("address: header %q: must be %s or %s; for another, make a key by ByFunc", o.Header, xForwardedFor, forwarded)
	}
	if a.ipv6Bits == 0 {
		a.ipv6Bits = 64
	}
	if a.ipv6Bits < 1 || a.ipv6Bits > 128 {
		return nil, fmt.Errorf("address: %d bits of IPv6: must be 1 to 128", o.IPv6Bits)
	}
	for _, p := range o.Trusted {
		if !p.IsValid() {
			return nil, fmt.Errorf("address: a trusted network is not valid: write for example netip.MustParsePrefix(%q)", "10.0.0.0/8")
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		a.trusted = append(a.trusted, p.Masked())
	}
	return a, nil
}

func (a *addresses) key(r *http.Request) (string, bool) {
	client, ok := a.client(r)
	if !ok {
		return "", false
	}
	const prefix = "address:"
	if client.Is4() || a.ipv6Bits == 128 {
		return prefix + client.String(), true
	}
	network, _ := client.Prefix(a.ipv6Bits) // can't fail: the bits were checked
	return prefix + network.String(), true
}

// client is the address that sent the request; false if the peer has none.
func (a *addresses) client(r *http.Request) (netip.Addr, bool) {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	peer := plain(remote.Addr())
	if !a.trusts(peer) {
		return peer, true
	}
	client, ok := a.forwardedFor(r.Header[a.header])
	if !ok {
		return peer, true
	}
	return client, true
}

// forwardedFor is the rightmost address of the header's lines that is not trusted,
// or if all are, the leftmost. It is false if there is none, or a fault before it.
func (a *addresses) forwardedFor(lines []string) (client netip.Addr, ok bool) {
	last, node := lastElement, forwardedNode
	if a.header == xForwardedFor {
		last, node = lastListed, listedNode
	}
	for _, line := range slices.Backward(lines) {
		for more := true; more; {
			var element string
			line, element, more = last(line)
			if client, ok = node(element); !ok || !a.trusts(client) {
				return client, ok
			}
		}
	}
	return client, ok
}

func (a *addresses) trusts(addr netip.Addr) bool {
	for _, p := range a.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// plain is an address in its one form: IPv4 as such, and without a zone, which is
// this machine's matter.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
