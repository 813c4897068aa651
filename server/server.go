package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/server/ingest"
	"github.com/weir-counter/weir/server/metrics"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/board"
	"github.com/weir-counter/weir/service/conns"
	"github.com/weir-counter/weir/service/views"
)

// Server is the HTTP door of a service. Create it with New.
type Server struct {
	service   *service.Service
	ceilings  service.Config
	cfg       Config // defaults applied, valid
	log       *slog.Logger
	metrics   *metrics.Metrics
	ingest    *ingest.Routes
	handler   http.Handler
	inFlight  atomic.Int64    // requests
	board     board.Board     // of the pages that are open
	tops      views.Tops      // that they show
	draining  atomic.Bool     // set once, when Run begins to stop
	stopping  context.Context // ends then: answers that last do too
	beginStop context.CancelFunc

	address conns.Address
	opening *Opening // nil: it listens itself
	serving *Opening // nil before Serve
}

// New returns a Server for of that does not listen yet. It fails with a
// *weir.Error of CodeInvalidConfig that names the field at fault.
//
// New hooks huma.NewErrorWithContext once per process, for its own operations
// only: an API of the caller's that uses huma keeps its errors.
func New(of *service.Service, cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(of.Config().DurableTimeout); err != nil {
		return nil, err
	}
	s := &Server{service: of, ceilings: of.Config(), cfg: cfg, log: cfg.Logger}
	s.stopping, s.beginStop = context.WithCancel(context.Background())
	s.ingest = ingest.New(ingest.Config{
		Service: of, Log: s.log, Caller: clientOf, Pace: s.pace(), Pause: cfg.WriteTimeout - cfg.ReadTimeout, MaxLineBytes: cfg.MaxLineBytes,
	})
	s.metrics = metrics.New(of, metrics.HTTP{InFlight: s.inFlight.Load, Conns: s.conns, Keys: cfg.MetricsKeys})
	handler, err := s.routes()
	if err != nil {
		return nil, err
	}
	s.handler = handler
	return s, nil
}

// Handler returns the whole API, for a server or a test of the caller's own.
// The limits on connections and slow clients are Run's and not part of it.
func (s *Server) Handler() http.Handler { return s.handler }

// TakeOver has the server answer at an address where it is expected already, instead of Config.Addr.
// nil is none. It comes before Listen, Serve and Run.
func (s *Server) TakeOver(o *Opening) { s.opening = o }

// Listen opens Config.Addr, so that an address in use shows before Run. Run
// calls it when the caller has not; a second call does nothing, nor does one after
// TakeOver.
func (s *Server) Listen() error {
	if s.opening != nil {
		return nil
	}
	return s.address.Listen(s.cfg.Addr, s.cfg.MaxConns)
}

// conns are the connections of the address listened on, nil before.
func (s *Server) conns() *conns.Listener {
	if s.opening != nil {
		return s.opening.conns
	}
	return s.address.Listener()
}

// Addr returns the address listened on, host:port, once Listen succeeded; it
// is "" before.
func (s *Server) Addr() string {
	if s.opening != nil {
		return s.opening.Addr()
	}
	return s.address.Addr()
}

// Serve begins to answer and returns at once. Run calls it when the caller has not: it is for
// who must know that requests are answered from here on. One goroutine may call Serve and Run.
func (s *Server) Serve() error {
	if s.serving != nil {
		return nil
	}
	if err := s.Listen(); err != nil {
		return err
	}
	s.serving = s.opening
	if s.serving == nil {
		s.serving = open(s.cfg, s.address.Listener(), s.handler)
	}
	s.serving.handOver(s.handler)
	s.log.Info("serving", "addr", s.Addr(), "version", s.ceilings.Version, "tls", s.cfg.TLS != nil, "tokens", s.service.Locked())
	if service.OpenToOthers(s.Addr()) && !s.service.Locked() {
		s.log.Warn("other machines can reach this address, and there is no tokens file: anybody who reaches it can read, hit, delete and back up", "addr", s.Addr())
	}
	return nil
}

// Run serves until ctx is done and then stops: /readyz turns 503, DrainDelay
// passes, the listener closes, and requests in flight get StopTimeout to
// finish. It returns nil after a clean stop. A Server runs once.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Serve(); err != nil {
		return err
	}
	select {
	case err := <-s.serving.failed:
		return fmt.Errorf("serve on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	return s.stop(ctx, s.serving.http)
}

// stop takes the context that ended Run for its values only.
func (s *Server) stop(ctx context.Context, hs *http.Server) error {
	s.draining.Store(true)
	s.log.Info("stopping", "in_flight", s.inFlight.Load(), "drain_delay", s.cfg.DrainDelay, "timeout", s.cfg.StopTimeout)
	if s.cfg.DrainDelay > 0 {
		<-time.After(s.cfg.DrainDelay)
	}
	s.beginStop()
	s.board.Close() // pages look elsewhere: their streams would never end
	s.tops.Close()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StopTimeout)
	defer cancel()
	if err := hs.Shutdown(bounded); err != nil {
		cut := s.inFlight.Load()
		return errors.Join(fmt.Errorf("stop: %d requests were cut off after %v: %w", cut, s.cfg.StopTimeout, err), hs.Close())
	}
	s.log.Info("drained: no requests in flight")
	return nil
}
