package conns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// Listen opens a TCP address, with at most limit connections open (Limit).
func Listen(addr string, limit int) (*Listener, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return Limit(l, limit), nil
}

// Address is where a door listens, once it does. The zero value listens nowhere yet. It is safe for many goroutines.
type Address struct{ at atomic.Pointer[Listener] }

// Listen opens an address. Where there is one already it does nothing.
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

// Listener returns the listener, nil before there is one.
func (a *Address) Listener() *Listener { return a.at.Load() }

// Addr returns host:port; it is "" before there is a listener.
func (a *Address) Addr() string {
	if l := a.at.Load(); l != nil {
		return l.Addr().String()
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
