package server

import (
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// pool bounds what may be under way at once at one door: places, or bytes. Doors have
// pools of their own, so that whoever fills one leaves the others their answers. One
// that lasts as long as a client likes has a share besides, the most that one client
// address may have of it: three quarters. The last quarter is for the others; and clients
// behind one proxy, which have one address, lose no more than that.
type pool struct {
	name  string
	what  string // that is full, for messages
	raise string // the setting that makes it larger
	bound int64
	share int64 // of one client address; 0: no share

	inUse   atomic.Int64
	refused atomic.Uint64
	last    atomic.Int64 // when it last refused, ns of the Unix epoch; 0: never

	mu sync.Mutex
	by map[netip.Addr]int64 // of those with something in use; only with a share
}

// shared gives a pool its share of one client, at least least.
func (p *pool) shared(least int64) *pool {
	p.share, p.by = max(p.bound-p.bound/4, least), map[netip.Addr]int64{}
	return p
}

// enter takes n of the pool for a client, if there is room. leave must follow if so.
func (p *pool) enter(client netip.Addr, n int64) bool {
	if p.inUse.Add(n) > p.bound || !p.enterShare(client, n) {
		p.inUse.Add(-n)
		p.refused.Add(1)
		p.last.Store(time.Now().UnixNano())
		return false
	}
	return true
}

func (p *pool) enterShare(client netip.Addr, n int64) bool {
	if p.share == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[client]+n > p.share {
		return false
	}
	p.by[client] += n
	return true
}

// leave gives n back.
func (p *pool) leave(client netip.Addr, n int64) {
	p.inUse.Add(-n)
	if p.share == 0 || n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[client] -= n; p.by[client] == 0 {
		delete(p.by, client)
	}
}

// full is the problem of who found no room.
func (p *pool) full() *problem {
	detail := "too many " + p.what + " at once: try again later"
	if p.raise != "" {
		detail += ", or start the server with a larger --" + p.raise
	}
	problem := newProblem(codeCrowded[p.name], "", detail)
	return problem
}

// clientOf is who a request comes from, as pools tell clients apart: an IPv4 address, or
// the /64 of an IPv6 one, which is one household. The zero Addr stands for all others.
func clientOf(r *http.Request) netip.Addr { return clientAt(r.RemoteAddr) }

func clientAt(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return addr
	}
	prefix, err := addr.Prefix(64)
	if err != nil {
		return netip.Addr{}
	}
	return prefix.Addr()
}
