package resp

import (
	"crypto/tls"
	"io"
	"net"
	"time"

	"github.com/weir-counter/weir/resp/protocol"
	"github.com/weir-counter/weir/service/conns"
)

// Opening is the address of a Server that is not there yet. It
// answers LOADING to what a connection sends first, and closes it: clients ask again on a new one, which
// they set up anew, such as with HELLO. A Server takes it over (Server.TakeOver).
type Opening struct{ *conns.Opening }

// Open listens on cfg.Addr, so that an address in use shows before any long work, and answers with what phase
// returns, such as "loading: the journal is read". Close it if no Server takes it over.
func Open(cfg Config, phase func() string) (*Opening, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	o, err := conns.Open(cfg.Addr, cfg.MaxConns, cfg.Logger, func(c net.Conn) { refuse(c, cfg, phase) })
	if err != nil {
		return nil, err
	}
	cfg.Logger.Info("listening for clients of Redis; not ready yet", "addr", o.Addr())
	return &Opening{o}, nil
}

// refuse answers the first requests of a connection, those that came together.
func refuse(c net.Conn, cfg Config, phase func() string) {
	stream := c
	if cfg.TLS != nil {
		stream = tls.Server(c, cfg.TLS)
	}
	if err := c.SetDeadline(time.Now().Add(cfg.RequestTimeout)); err != nil {
		return
	}
	small := protocol.Limits{Buffer: limits.Buffer, Request: limits.Buffer, Args: limits.Args, Bulk: limits.Buffer, Inline: limits.Inline}
	in, out := protocol.NewReader(stream, small, nil), protocol.NewWriter(stream)
	defer in.Release()
	answered := false
	for {
		args, err := in.Next()
		if err == nil && args != nil {
			out.Error("LOADING", "Weir is not ready yet: "+phase())
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
func (s *Server) TakeOver(o *Opening) { o.Opening.TakeOver(&s.address) }
