package service

import "net/netip"

// Caller is who a request comes from, as pools tell clients apart: an IPv4 address, or
// the /64 of an IPv6 one, which is one household. The zero Caller stands for all others,
// such as those of a socket without addresses.
type Caller struct{ addr netip.Addr }

// CallerAt is the client of a connection, by its remote address host:port.
func CallerAt(remote string) Caller {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return Caller{}
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return Caller{addr}
	}
	prefix, err := addr.Prefix(64)
	if err != nil {
		return Caller{}
	}
	return Caller{prefix.Addr()}
}

// String is the address, or "invalid IP" of the zero Caller.
func (c Caller) String() string { return c.addr.String() }
