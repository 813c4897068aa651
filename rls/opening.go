package rls

import (
	"net"

	"github.com/weir-counter/weir/service/conns"
)

// Opening is the address of a Server that is not there yet. It closes each connection at once, so that Envoy does what it
// is told for a service that is away and does not wait. A Server takes it over (Server.TakeOver).
type Opening struct{ *conns.Opening }

// Open listens on cfg.Addr, so that an address in use shows before any long work. Close it if no Server takes it over.
func Open(cfg Config) (*Opening, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	o, err := conns.Open(cfg.Addr, cfg.MaxConns, cfg.Logger, func(net.Conn) {})
	if err != nil {
		return nil, err
	}
	return &Opening{o}, nil
}

// TakeOver has the server answer at an address where it is expected already, in place of Config.Addr.
func (s *Server) TakeOver(o *Opening) { o.Opening.TakeOver(&s.address) }
