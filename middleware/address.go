package middleware

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
)

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
