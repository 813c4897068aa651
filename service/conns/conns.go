package conns

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-counter/weir/service"
)

// Limit returns a listener with at most limit connections open. A new one is always
// accepted: beyond the limit it takes the place of one that waits for its client, be it
// idle, silent from the start, or with a header or a body on the way. It is one of the client
// address that has most of these, and of them the one that has waited longest. So who
// opens connections and leaves them idle sheds its own, and the others come in.
// Only when none waits, all being in the middle of an answer, it is the one whose
// answer takes longest.
func Limit(l net.Listener, limit int) *Listener {
	return &Listener{Listener: l, limit: limit, open: map[*Conn]struct{}{}, by: service.CallerCounts{}}
}

// Listener is a net.Listener with a bound. Create it with Limit; it is safe for many goroutines.
type Listener struct {
	net.Listener
	limit int

	mu   sync.Mutex // guards all below
	open map[*Conn]struct{}
	by   service.CallerCounts // connections of each client
	shed uint64               // so far
}

// Conn is an open connection.
type Conn struct {
	net.Conn
	of     *Listener
	client service.Caller
	since  atomic.Int64 // ns from begin: it waits for its client since then; negated: it does not
	closed bool         // guarded by conns.mu
}

// begin is before every connection, so that times after it are more than 0.
var begin = time.Now().Add(-time.Second)

// Accept implements net.Listener.
func (cs *Listener) Accept() (net.Conn, error) {
	for {
		c, err := cs.Listener.Accept()
		switch {
		case err == nil:
			return cs.add(c), nil
		case !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) || !cs.shedOne():
			return nil, err
		}
	}
}

func (cs *Listener) add(raw net.Conn) net.Conn {
	c := &Conn{Conn: raw, of: cs, client: service.CallerAt(raw.RemoteAddr().String())}
	c.Waits(true)
	cs.mu.Lock()
	full := len(cs.open) >= cs.limit
	cs.mu.Unlock()
	if full {
		cs.shedOne()
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.open[c] = struct{}{}
	cs.by.Add(c.client, 1)
	return c
}

// shedOne closes a connection, if there is one.
func (cs *Listener) shedOne() bool {
	cs.mu.Lock()
	victim := cs.victim()
	if victim != nil {
		cs.shed++
	}
	cs.mu.Unlock()
	if victim == nil {
		return false
	}
	_ = victim.Close() // nobody is left to tell
	return true
}

// victim is the connection to close. Cost: O(connections), only when they are as many as
// may be. The caller holds mu.
func (cs *Listener) victim() (worst *Conn) {
	for c := range cs.open {
		if worst == nil || cs.before(c, worst) {
			worst = c
		}
	}
	return worst
}

// before tells whether c is to be closed rather than d. The caller holds mu.
func (cs *Listener) before(c, d *Conn) bool {
	one, other := c.since.Load(), d.since.Load()
	switch waiting := one > 0; {
	case waiting != (other > 0):
		return waiting
	case !waiting:
		return one > other // both negated
	case cs.by.Of(c.client) != cs.by.Of(d.client):
		return cs.by.Of(c.client) > cs.by.Of(d.client)
	}
	return one < other
}

// Bound is how many connections may be open.
func (cs *Listener) Bound() int { return cs.limit }

// Count is how many connections are open, and how many were shed so far.
func (cs *Listener) Count() (open int, shed uint64) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.open), cs.shed
}

// Client is the client at the other end, by its address alone.
func (c *Conn) Client() service.Caller { return c.client }

// Close may come more than once.
func (c *Conn) Close() error {
	c.of.mu.Lock()
	if !c.closed {
		c.closed = true
		delete(c.of.open, c)
		c.of.by.Add(c.client, -1)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// Waits notes that the connection waits for its client from now on, or no longer. A nil
// conn is one of a caller's own server.
func (c *Conn) Waits(waiting bool) { c.waits(time.Since(begin), waiting) }

// WaitsFrom is Waits from a time on, for a caller that has read the clock already.
func (c *Conn) WaitsFrom(now time.Time, waiting bool) { c.waits(now.Sub(begin), waiting) }

func (c *Conn) waits(since time.Duration, waiting bool) {
	switch {
	case c == nil:
	case waiting:
		c.since.Store(int64(since))
	default:
		c.since.Store(-int64(since))
	}
}
