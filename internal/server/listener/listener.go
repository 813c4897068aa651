// Package listener is what the listeners of all protocols share: their settings, addresses and connections.
//
// A Listener keeps clients from using up its connections. It has a bound, and closes a connection that waits for its client
// to let another in.
//
// Invariants. There are never more connections open than the bound and the one that
// is about to be closed. A connection that the server works for is closed last.
package listener

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/settings"
)

// ConnLimit returns a listener with at most limit connections open. A new one is always
// accepted. Beyond the limit it takes the place of one that waits for its client: idle, silent from the start, or with
// a request on the way. Among these it closes the one that has waited longest, of the address that has most of them. So a client that
// opens connections and leaves them idle loses its own, and others get in.
// If none waits, it closes the one whose answer takes longest.
func ConnLimit(l net.Listener, limit int) *Listener {
	return &Listener{Listener: l, limit: limit, open: map[*Conn]struct{}{}, by: access.CallerCounts{}}
}

// Listener is a net.Listener with a bound. Create it with ConnLimit; it is safe for many goroutines.
type Listener struct {
	net.Listener
	limit int

	mu   sync.Mutex // guards all below
	open map[*Conn]struct{}
	by   access.CallerCounts // connections of each client
	shed uint64              // so far
}

// Conn is an open connection.
type Conn struct {
	net.Conn
	listener *Listener
	client   access.Caller
	since    atomic.Int64 // ns from begin: it waits for its client since then; negated: it does not
	closed   bool         // guarded by conns.mu
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
	c := &Conn{Conn: raw, listener: cs}
	c.client = access.CallerAt(c.RemoteAddr().String())
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

// victim is the connection to close. Cost: O(connections), only when they are as many as may be. The caller holds mu.
func (cs *Listener) victim() (worst *Conn) {
	for c := range cs.open {
		if worst == nil || cs.before(c, worst) {
			worst = c
		}
	}
	return worst
}

// before reports whether c is to be closed rather than d. The caller holds mu.
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

// Address is where it listens, as Listen takes it.
func (cs *Listener) Address() string {
	at := cs.Addr()
	if at.Network() == "unix" {
		return "unix:" + at.String()
	}
	return at.String()
}

// Connections are the figures of the connections of HTTP.
type Connections struct {
	Open  int    `metric:"weir_connections" doc:"Open connections."`
	Bound int    `metric:"weir_connections_bound" doc:"Most open connections."`
	Shed  uint64 `metric:"weir_connections_shed_total" doc:"Connections that waited for their client and were closed to let others in."`
}

// Count returns the figures of connections. A nil Listener has none.
func (cs *Listener) Count() (c Connections) {
	if cs == nil {
		return c
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return Connections{len(cs.open), cs.limit, cs.shed}
}

// Client is the client at the other end, by its address alone.
func (c *Conn) Client() access.Caller { return c.client }

// Close may come more than once.
func (c *Conn) Close() error {
	c.listener.mu.Lock()
	if !c.closed {
		c.closed = true
		delete(c.listener.open, c)
		c.listener.by.Add(c.client, -1)
	}
	c.listener.mu.Unlock()
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

// RemoteAddr implements net.Conn. Who reaches a Unix socket is on this machine, like a client at the loopback address.
func (c *Conn) RemoteAddr() net.Addr {
	if at := c.Conn.RemoteAddr(); at.Network() == "tcp" {
		return at
	}
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
}

// Listen opens a TCP address host:port, or a Unix socket unix:/path, with at most limit connections open (ConnLimit).
// The owner and the group of a socket may connect to it.
func Listen(addr string, limit int) (*Listener, error) {
	config, network := new(net.ListenConfig), "tcp"
	path, socket := strings.CutPrefix(addr, "unix:")
	if socket {
		network = "unix"
		removeStale(path)
	}
	l, err := config.Listen(context.Background(), network, path)
	if err == nil && socket {
		err = os.Chmod(path, 0o660)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return ConnLimit(l, limit), nil
}

// removeStale removes the socket of a server that was killed: nobody answers there.
func removeStale(path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return // Listen says what is wrong
	}
	c, err := new(net.Dialer).DialContext(context.Background(), "unix", path)
	if err == nil {
		_ = c.Close()
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path)
	}
}

// Address is where a listener listens, once it does. The zero value listens nowhere yet. It is safe for many goroutines.
type Address struct{ at atomic.Pointer[Listener] }

// Listen opens an address, unless one is open already.
func (a *Address) Listen(addr string, limit int) error {
	if a.at.Load() != nil {
		return nil
	}
	l, err := Listen(addr, limit)
	if err != nil {
		return err
	}
	if !a.at.CompareAndSwap(nil, l) {
		return l.Close()
	}
	return nil
}

// Use takes a listener that is open.
func (a *Address) Use(l *Listener) { a.at.Store(l) }

// TakeOver takes the listener of an opening, unless it was closed or taken over before.
func (a *Address) TakeOver(o *Opening) {
	if o.end() {
		a.Use(o.listener)
	}
}

// Connections fills in the figures of connections.
func (a *Address) Connections(f *access.ListenerFigures) {
	if l := a.Listener(); l != nil {
		is := l.Count()
		f.Open, f.Bound, f.Shed = is.Open, is.Bound, is.Shed
	}
}

// Listener returns the listener, nil before there is one.
func (a *Address) Listener() *Listener { return a.at.Load() }

// Addr returns host:port or unix:/path; it is "" before there is a listener.
func (a *Address) Addr() string {
	if l := a.at.Load(); l != nil {
		return l.Address()
	}
	return ""
}

// Close closes the listener, if there is one that is open.
func (a *Address) Close() error {
	if l := a.at.Load(); l != nil {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
	}
	return nil
}

// Opening is the address of a listener that does not answer yet, because its journal is read or its node joins others. What
// connects meanwhile is refused, in the listener's protocol. The listener takes the address over once it answers (Address.TakeOver).
type Opening struct {
	listener *Listener
	refusing Serving
	ended    atomic.Bool
	accepted chan struct{} // closed once nothing more is accepted
}

// OpenListener listens on an address, with at most limit connections open, so that an address in use shows before any long work.
// refuse answers a connection. The connection is closed after it, and may be before. Close the Opening if nobody takes it over.
func OpenListener(addr string, limit int, log *slog.Logger, refuse func(net.Conn)) (*Opening, error) {
	l, err := Listen(addr, limit)
	if err != nil {
		return nil, err
	}
	o := &Opening{listener: l, accepted: make(chan struct{})}
	go func() {
		defer close(o.accepted)
		_ = o.refusing.Accept(l, log, func(c *Conn) { refuse(c) }) // it fails only for a listener that is closed
	}()
	return o, nil
}

// Addr is the address listened on, host:port.
func (o *Opening) Addr() string { return o.listener.Address() }

// Close gives up the address. If a listener has taken it over, Close does nothing.
func (o *Opening) Close() error {
	if !o.end() {
		return nil
	}
	return o.listener.Close()
}

// end stops refusing, and returns whether it did not before. The address stays.
func (o *Opening) end() bool {
	if !o.ended.CompareAndSwap(false, true) {
		return false
	}
	o.refusing.End(func(c *Conn) { _ = c.Close() }) // a client that has sent nothing asks again
	_ = o.deadline(time.Unix(1, 0))                 // of an open listener: it does not fail
	<-o.accepted
	o.refusing.Wait()
	_ = o.deadline(time.Time{})
	return true
}

// deadline is of Accept.
func (o *Opening) deadline(at time.Time) error {
	return o.listener.Listener.(interface{ SetDeadline(time.Time) error }).SetDeadline(at)
}

// acceptPause is how long a failed Accept waits before the next one.
const acceptPause = 10 * time.Millisecond

// Serving is the connections that a listener serves, each in a goroutine of its own. The zero Serving serves none yet.
type Serving struct {
	running sync.WaitGroup // of open

	mu    sync.Mutex // guards all below
	ended bool
	open  map[*Conn]struct{}
}

// Accept has each connection of l served, and closed after that. It returns nil after End, or the error of a listener that was closed.
func (s *Serving) Accept(l *Listener, log *slog.Logger, serve func(*Conn)) error {
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			s.begin(c.(*Conn), serve)
		case s.over():
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default: // descriptors are used up, or the client left: the next one may do better
			log.Warn("could not accept a connection", "addr", l.Address(), "error", err)
			<-time.After(acceptPause)
		}
	}
}

func (s *Serving) begin(c *Conn, serve func(*Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		_ = c.Close() // it came at the last moment
		return
	}
	if s.open == nil {
		s.open = map[*Conn]struct{}{}
	}
	s.open[c] = struct{}{}
	s.running.Go(func() {
		defer func() {
			_ = c.Close() // nobody is left to tell
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.open, c)
		}()
		serve(c)
	})
}

func (s *Serving) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// End has no further connection served, calls f with those that are, and returns how many they are. It may be called again.
func (s *Serving) End(f func(*Conn)) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for c := range s.open {
		f(c)
	}
	return len(s.open)
}

// Wait waits until all connections were served. It comes after End.
func (s *Serving) Wait() { s.running.Wait() }

// Wake ends the wait for the client, now and from now on. A closed connection is awake.
func (c *Conn) Wake() { _ = c.SetReadDeadline(time.Unix(1, 0)) }

// Settings are the settings of any listener. The zero value of each field stands for its default.
type Settings struct {
	// Addr is the TCP address to listen on, host:port, or a Unix socket, unix:/path; port 0 picks a free one. Default: the protocol's own port on 127.0.0.1.
	Addr string
	// TLS of connections; nil: none. For gRPC it offers h2 in NextProtos.
	TLS *tls.Config

	// MaxConns bounds open connections. One more takes the place of the one that waits longest for its client, of the client
	// address with most. Default 4096, 1 to 1,000,000.
	MaxConns int
	// IdleTimeout is how long a connection may wait for its next request. Default 1 h: clients
	// keep connections in pools. 1 s to 24 h.
	IdleTimeout time.Duration
	// RequestTimeout bounds the handshake of TLS, the time from the first byte of a request to its last, and the
	// time to send a reply. Default 10 s, 1 ms to 24 h.
	RequestTimeout time.Duration
	// DrainDelay is how long the server goes on before it begins to stop. Default 0, at most 24 h.
	DrainDelay time.Duration
	// StopTimeout bounds how long requests under way may take to finish after that; then their
	// connections are cut. Default 15 s, 1 ms to 24 h.
	StopTimeout time.Duration

	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
}

// WithDefaults returns the Settings with the defaults that its zeros stand for. The default of Addr is addr.
func (s Settings) WithDefaults(addr string) Settings {
	s.Addr = cmp.Or(s.Addr, addr)
	s.MaxConns = cmp.Or(s.MaxConns, 4096)
	s.IdleTimeout = cmp.Or(s.IdleTimeout, time.Hour)
	s.RequestTimeout = cmp.Or(s.RequestTimeout, 10*time.Second)
	s.StopTimeout = cmp.Or(s.StopTimeout, 15*time.Second)
	s.Logger = cmp.Or(s.Logger, slog.Default())
	return s
}

// Validate returns a *engine.Error of CodeInvalidConfig that names the first field outside what it may be. Defaults are in.
func (s *Settings) Validate() error {
	if err := settings.CheckListen(s.Addr); err != nil {
		return err
	}
	if err := settings.CheckNumbers(settings.Number{Field: "MaxConns", Value: int64(s.MaxConns), Low: 1, High: 1_000_000}); err != nil {
		return err
	}
	const longest = 24 * time.Hour
	return settings.CheckDurations(
		settings.Duration{Field: "IdleTimeout", Value: s.IdleTimeout, Low: time.Second, High: longest},
		settings.Duration{Field: "RequestTimeout", Value: s.RequestTimeout, Low: time.Millisecond, High: longest},
		settings.Duration{Field: "DrainDelay", Value: s.DrainDelay, Low: 0, High: longest},
		settings.Duration{Field: "StopTimeout", Value: s.StopTimeout, Low: time.Millisecond, High: longest},
	)
}
