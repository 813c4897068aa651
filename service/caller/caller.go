// Package caller is who a request comes from, as what clients may use up tells them apart: by
// identity, or without one by address.
//
// Invariant: a client that opens more connections, or has more addresses of one IPv6 network, is
// still one caller. Package auth proves identities; package pools gives each caller no more
// than its share.
package caller

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"

	"github.com/weir-counter/weir/auth"
)

// Caller is who a request comes from: an address, and who has proved to be there. The address is
// an IPv4 one, or the /64 of an IPv6 one, which is one household. The zero Caller stands for
// all others, such as those of a socket without addresses. A door makes one for each
// connection, adds the identity, and hands it to every call.
type Caller struct {
	addr  netip.Addr
	login *auth.Login // nil: nobody has proved anything
}

// At is the client of a connection, by its remote address host:port.
func At(remote string) Caller {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return Caller{}
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return Caller{addr: addr}
	}
	prefix, err := addr.Prefix(64)
	if err != nil {
		return Caller{}
	}
	return Caller{addr: prefix.Addr()}
}

// As is the caller with the identity that a login proves.
func (c Caller) As(login *auth.Login) Caller {
	c.login = login
	return c
}

// Login is what the caller has proved; nil: nothing.
func (c Caller) Login() *auth.Login { return c.login }

// Known tells whether the caller has proved an identity.
func (c Caller) Known() bool { return c.login != nil }

// Name is that of the caller's identity, "" without one.
func (c Caller) Name() string {
	if c.login == nil {
		return ""
	}
	return c.login.Identity.Name
}

// Remote is the address, or "invalid IP" of the zero Caller.
func (c Caller) Remote() string { return c.addr.String() }

// String is the name, or the address of a caller without one.
func (c Caller) String() string {
	if c.login != nil {
		return "identity " + c.Name()
	}
	return c.Remote()
}

// Own is a key of this identity alone, of an idempotent request or a reservation, so that no other can ask what became
// of it. It is of the same length whatever the name.
func (c Caller) Own(key string) string {
	if !c.Known() {
		return key
	}
	own := sha256.Sum256([]byte(c.Name() + "\x00" + key))
	return hex.EncodeToString(own[:])
}

// account is whom pools give a share: the identity, wherever it calls from, or the address.
type account struct {
	name string
	addr netip.Addr
}

func (c Caller) account() account {
	if c.login != nil {
		return account{name: c.Name()}
	}
	return account{addr: c.addr}
}

// Counts is how much each caller has of something; one that has nothing takes no
// room. It is guarded by whoever has it.
type Counts map[account]int64

// Of is how much a caller has.
func (m Counts) Of(c Caller) int64 { return m[c.account()] }

// Add gives a caller n more, or takes with n below 0 what it has.
func (m Counts) Add(c Caller, n int64) {
	of := c.account()
	if m[of] += n; m[of] == 0 {
		delete(m, of)
	}
}

// OpenToOthers tells whether other machines may reach an address that a door listens on.
func OpenToOthers(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return err == nil && !at.Addr().Unmap().IsLoopback()
}
