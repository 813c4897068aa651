package conns

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// AcceptPause is how long a failed Accept waits before the next one.
const AcceptPause = 10 * time.Millisecond

// Opening is the address of a door that does not answer yet, because its journal is read or its node joins others. What
// connects meanwhile is refused, in the door's protocol. The door takes the address over once it answers (TakeOver).
type Opening struct {
	listener *Listener
	refuse   func(net.Conn)
	log      *slog.Logger

	mu      sync.Mutex // guards all below
	ended   bool
	open    map[net.Conn]struct{}
	serving sync.WaitGroup // the loop, and each of open
}

// Open listens on an address, with at most limit connections open, so that an address in use shows before any long work.
// refuse answers a connection, which is closed after it, and may be before. Close the Opening if nobody takes it over.
func Open(addr string, limit int, log *slog.Logger, refuse func(net.Conn)) (*Opening, error) {
	l, err := Listen(addr, limit)
	if err != nil {
		return nil, err
	}
	o := &Opening{listener: l, refuse: refuse, log: log, open: map[net.Conn]struct{}{}}
	o.serving.Go(o.accept)
	return o, nil
}

// Addr is the address listened on, host:port.
func (o *Opening) Addr() string { return o.listener.Addr().String() }

// Close lets the address go. After it was taken over it does nothing.
func (o *Opening) Close() error {
	if !o.end() {
		return nil
	}
	return o.listener.Close()
}

// TakeOver makes the listener that of an address, unless it was closed or taken over before.
func (o *Opening) TakeOver(by *Address) {
	if o.end() {
		by.Use(o.listener)
	}
}

// end stops refusing, and returns whether it did not before. The address stays.
func (o *Opening) end() bool {
	o.mu.Lock()
	if o.ended {
		o.mu.Unlock()
		return false
	}
	o.ended = true
	_ = o.deadline(time.Unix(1, 0)) // of an open listener: it does not fail
	for c := range o.open {
		_ = c.Close() // a client that has sent nothing asks again
	}
	o.mu.Unlock()
	o.serving.Wait()
	_ = o.deadline(time.Time{})
	return true
}

// deadline is of Accept.
func (o *Opening) deadline(at time.Time) error {
	return o.listener.Listener.(*net.TCPListener).SetDeadline(at)
}

func (o *Opening) accept() {
	for {
		c, err := o.listener.Accept()
		o.mu.Lock()
		if o.ended {
			o.mu.Unlock()
			if err == nil {
				_ = c.Close() // it came at the last moment
			}
			return
		}
		if err == nil {
			o.open[c] = struct{}{}
			o.serving.Go(func() { o.serve(c) })
		}
		o.mu.Unlock()
		if err != nil { // descriptors are used up, or the client left
			o.log.Warn("could not accept a connection", "addr", o.Addr(), "error", err)
			<-time.After(AcceptPause)
		}
	}
}

func (o *Opening) serve(c net.Conn) {
	defer func() {
		o.mu.Lock()
		delete(o.open, c)
		o.mu.Unlock()
		_ = c.Close() // nobody is left to tell
	}()
	o.refuse(c)
}
