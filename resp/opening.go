package resp

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"time"

	"github.com/weir-counter/weir/resp/protocol"
	"github.com/weir-counter/weir/service/conns"
)

// Opening is the address of a Server that is not there yet, because its journal is read or its node joins others. It
// answers LOADING to what a connection sends first, and closes it: clients ask again on a new one, which
// they set up anew, such as with HELLO. A Server takes it over (Server.TakeOver).
type Opening struct {
	cfg      Config
	listener *conns.Listener
	phase    func() string

	mu      sync.Mutex // guards all below
	ended   bool
	open    map[net.Conn]struct{}
	serving sync.WaitGroup // the loop, and each of open
}

// Open listens on cfg.Addr, so that an address in use shows before any long work, and answers with what phase
// returns, such as "loading: the journal is read". Close it if no Server takes it over.
func Open(cfg Config, phase func() string) (*Opening, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l, err := conns.Listen(cfg.Addr, cfg.MaxConns)
	if err != nil {
		return nil, err
	}
	o := &Opening{cfg: cfg, listener: l, phase: phase, open: map[net.Conn]struct{}{}}
	cfg.Logger.Info("listening for clients of Redis; not ready yet", "addr", o.Addr())
	o.serving.Go(o.accept)
	return o, nil
}

// Addr is the address listened on, host:port.
func (o *Opening) Addr() string { return o.listener.Addr().String() }

// Close lets the address go. After a Server has taken it over it does nothing.
func (o *Opening) Close() error {
	if !o.end() {
		return nil
	}
	return o.listener.Close()
}

// end stops answering, and returns whether it did not before. The address stays.
func (o *Opening) end() bool {
	o.mu.Lock()
	if o.ended {
		o.mu.Unlock()
		return false
	}
	o.ended = true
	_ = o.deadline(time.Unix(1, 0)) // of an open listener: it does not fail
	for c := range o.open {
		_ = c.Close() // who has sent nothing asks again
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
			o.serving.Go(func() { o.refuse(c) })
		}
		o.mu.Unlock()
		if err != nil {
			o.cfg.Logger.Warn("could not accept a RESP connection", "error", err)
			<-time.After(acceptPause)
		}
	}
}

// refuse answers the first requests of a connection, those that came together.
func (o *Opening) refuse(c net.Conn) {
	defer func() {
		o.mu.Lock()
		delete(o.open, c)
		o.mu.Unlock()
		_ = c.Close() // nobody is left to tell
	}()
	stream := c
	if o.cfg.TLS != nil {
		stream = tls.Server(c, o.cfg.TLS)
	}
	if err := c.SetDeadline(time.Now().Add(o.cfg.RequestTimeout)); err != nil {
		return
	}
	small := protocol.Limits{Buffer: limits.Buffer, Request: limits.Buffer, Args: limits.Args, Bulk: limits.Buffer, Inline: limits.Inline}
	in, out := protocol.NewReader(stream, small, nil), protocol.NewWriter(stream)
	defer in.Release()
	answered := false
	for {
		args, err := in.Next()
		if err == nil && args != nil {
			out.Error("LOADING", "Weir is not ready yet: "+o.phase())
			answered = true
			continue
		}
		if err != nil || answered || in.Fill() != nil {
			break
		}
	}
	if answered && out.Flush() == nil {
		linger(stream)
	}
}

// linger lets the client read the answer: closing with something unread would take it back.
func linger(stream net.Conn) {
	half, ok := stream.(interface{ CloseWrite() error })
	if wrapped, is := stream.(*conns.Conn); is {
		half, ok = wrapped.Conn.(interface{ CloseWrite() error })
	}
	if ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, stream) // until it leaves, or its time is over
	}
}

// TakeOver has the server answer at an address where it is expected already, in place of Config.Addr.
func (s *Server) TakeOver(o *Opening) {
	if o.end() {
		s.address.Use(o.listener)
	}
}
