package rls

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/service/conns"
)

// Opening is the address of a Server that is not there yet, because its journal is read or its node joins others. It
// closes each connection at once, so that Envoy does what it is told for a service that is away and does not wait. A
// Server takes it over (Server.TakeOver).
type Opening struct {
	listener *conns.Listener
	ended    atomic.Bool
	closing  sync.WaitGroup // the loop
}

// Open listens on cfg.Addr, so that an address in use shows before any long work. Close it if no Server takes it over.
func Open(cfg Config) (*Opening, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l, err := conns.Listen(cfg.Addr, cfg.MaxConns)
	if err != nil {
		return nil, err
	}
	o := &Opening{listener: l}
	o.closing.Go(func() {
		for !o.ended.Load() {
			c, err := l.Accept()
			switch {
			case err == nil:
				_ = c.Close() // nobody is left to tell
			case !o.ended.Load(): // descriptors are used up, or the client left
				cfg.Logger.Warn("could not accept a connection of Envoy", "error", err)
				<-time.After(acceptPause)
			}
		}
	})
	return o, nil
}

// acceptPause is how long a failed accept waits before the next one.
const acceptPause = 10 * time.Millisecond

// Addr is the address listened on, host:port.
func (o *Opening) Addr() string { return o.listener.Addr().String() }

// Close lets the address go. After a Server has taken it over it does nothing.
func (o *Opening) Close() error {
	if !o.end() {
		return nil
	}
	return o.listener.Close()
}

// end stops closing connections, and returns whether it did not before. The address stays.
func (o *Opening) end() bool {
	if !o.ended.CompareAndSwap(false, true) {
		return false
	}
	_ = o.deadline(time.Unix(1, 0)) // of an open listener: it does not fail
	o.closing.Wait()
	_ = o.deadline(time.Time{})
	return true
}

// deadline is of Accept.
func (o *Opening) deadline(at time.Time) error {
	return o.listener.Listener.(*net.TCPListener).SetDeadline(at)
}

// TakeOver has the server answer at an address where it is expected already, in place of Config.Addr.
func (s *Server) TakeOver(o *Opening) {
	if o.end() {
		s.address.Use(o.listener)
	}
}
