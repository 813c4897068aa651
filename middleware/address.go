package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// AddressOptions say which address identifies a client. The zero value is right for a server that clients connect to
// without a proxy.
type AddressOptions struct {
	// Trusted are the addresses of your own proxies, which append to X-Forwarded-For. The header is read only if the request
	// comes from one of them, and only the part that they wrote. It is read from its right end to the first address that is not
	// trusted, the client. The client may have written what is left of that. None: the header is not read.
	//
	// A network that clients can send from must not be in here.
	Trusted []netip.Prefix

	// IPv6Bits is how much of an IPv6 address makes the key, 1 to 128 bits. Default 64: a client has at least so large a
	// network for itself, and would have 2^64 allowances with all bits.
	IPv6Bits int
}

const forwardedFor = "X-Forwarded-For"

// ByAddress is the key "address:" with the client's address: address:203.0.113.7, or address:2001:db8::/64 for IPv6. An IPv4
// address in an IPv6 one is IPv4. If the part of X-Forwarded-For that counts has a fault, the key is the peer's address, which
// is the proxy. A peer without an IP address, such as a Unix socket, has no key. For another header, write a key by ByFunc.
func ByAddress(o AddressOptions) Key {
	a, err := newAddresses(o)
	if err != nil {
		return Key{err: err}
	}
	return Key{of: a.key}
}

// addresses are checked AddressOptions.
type addresses struct {
	trusted  []netip.Prefix // IPv4 as such, masked
	ipv6Bits int
}

func newAddresses(o AddressOptions) (*addresses, error) {
	a := &addresses{ipv6Bits: o.IPv6Bits}
	if a.ipv6Bits == 0 {
		a.ipv6Bits = 64
	}
	if a.ipv6Bits < 1 || a.ipv6Bits > 128 {
		return nil, fmt.Errorf("address: %d bits of IPv6: must be 1 to 128", o.IPv6Bits)
	}
	for _, p := range o.Trusted {
		if !p.IsValid() {
			return nil, errors.New(`address: a trusted network is not valid: write for example netip.MustParsePrefix("10.0.0.0/8")`)
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

// client returns the address that sent the request; false if the peer has none.
func (a *addresses) client(r *http.Request) (netip.Addr, bool) {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	peer := plain(remote.Addr())
	if !a.trusts(peer) {
		return peer, true
	}
	client, ok := a.forwardedFor(r.Header[forwardedFor])
	if !ok {
		return peer, true
	}
	return client, true
}

// forwardedFor returns the rightmost address of the header's lines that is not trusted, or the leftmost if all are. It
// returns false if there is none, or a fault to its right.
func (a *addresses) forwardedFor(lines []string) (client netip.Addr, ok bool) {
	for _, line := range slices.Backward(lines) {
		for more := true; more; {
			comma := strings.LastIndexByte(line, ',')
			element := line[comma+1:]
			if more = comma >= 0; more {
				line = line[:comma]
			}
			if client, ok = parseAddress(strings.Trim(element, " \t")); !ok || !a.trusts(client) {
				return client, ok
			}
		}
	}
	return client, ok
}

// parseAddress reads an address, with or without a port; an IPv6 address may be in brackets.
func parseAddress(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	if err == nil {
		return plain(addr), true
	}
	if strings.HasSuffix(text, "]") {
		text += ":0"
	}
	with, err := netip.ParseAddrPort(text)
	return plain(with.Addr()), err == nil
}

func (a *addresses) trusts(addr netip.Addr) bool {
	for _, p := range a.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// plain returns the one form of an address: IPv4 as such, and without a zone, which means nothing on other machines.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
