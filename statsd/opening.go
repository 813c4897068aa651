package statsd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/weir-counter/weir/service/conns"
)

// Opening is the address of a Server that is not there yet, because its journal is read or its node joins others.
// What is sent to it waits in the kernel, as far as that has room, and is counted by the Server that takes it
// over (Server.TakeOver).
type Opening struct {
	mu      sync.Mutex // guards sockets
	sockets *sockets   // nil: closed, or taken over
}

// sockets are one address, by TCP and by UDP.
type sockets struct {
	listener net.Listener
	packets  *net.UDPConn
}

// Open listens on cfg.Addr, so that an address in use shows before any long work. Close it if no Server takes it over.
func Open(cfg Config) (*Opening, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	of, err := listen(cfg)
	if err != nil {
		return nil, err
	}
	return &Opening{sockets: of}, nil
}

// listen opens Config.Addr, with the buffer of Config.
func listen(cfg Config) (*sockets, error) {
	const tries = 20 // of a port that the system picks: it may be in use by UDP
	for try := 1; ; try++ {
		of, err := listenOn(cfg.Addr)
		_, port, _ := net.SplitHostPort(cfg.Addr)
		switch {
		case err == nil:
			if err := of.packets.SetReadBuffer(cfg.ReadBuffer); err != nil {
				cfg.Logger.Warn("the buffer of StatsD datagrams stays as it is", "error", err)
			}
			return of, nil
		case port != "0" || !errors.Is(err, syscall.EADDRINUSE) || try == tries:
			return nil, err
		}
	}
}

// listenOn opens an address by TCP, and the same one by UDP.
func listenOn(addr string) (*sockets, error) {
	var of net.ListenConfig
	l, err := of.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	packets, err := of.ListenPacket(context.Background(), "udp", l.Addr().String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s by UDP: %w", l.Addr(), err), l.Close())
	}
	return &sockets{l, packets.(*net.UDPConn)}, nil
}

// Addr is the address listened on, host:port; "" after Close, or when a Server has taken it over.
func (o *Opening) Addr() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sockets == nil {
		return ""
	}
	return o.sockets.listener.Addr().String()
}

// take is the sockets, the first time.
func (o *Opening) take() *sockets {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.sockets
	o.sockets = nil
	return of
}

// Close lets the address go. After a Server has taken it over it does nothing.
func (o *Opening) Close() error {
	if of := o.take(); of != nil {
		return errors.Join(of.listener.Close(), of.packets.Close())
	}
	return nil
}

// TakeOver has the server count what is sent to an address where it is expected already, in place of Config.Addr.
func (s *Server) TakeOver(o *Opening) {
	if of := o.take(); of != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.use(of)
	}
}

// use has the server count what the sockets get; s.mu is held.
func (s *Server) use(of *sockets) {
	s.listener, s.packets = conns.Limit(of.listener, s.cfg.MaxConns), of.packets
	s.drops.watch(of.packets)
}
