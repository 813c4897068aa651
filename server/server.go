package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/service"
)

// Server serves one engine over HTTP. Create it with New. It does not close
// the engine.
type Server struct {
	engine   *weir.Engine
	service  *service.Service
	cfg      Config // defaults applied, valid
	log      *slog.Logger
	metrics  *metrics
	handler  http.Handler
	inFlight atomic.Int64 // requests
	ingests  *sync.Pool   // of *ingest
	feeds    *sync.Pool   // of *[]byte, for them
	draining atomic.Bool  // set once, when Run begins to stop

	listener atomic.Pointer[conns]
	serving  *Opening // nil before Serve

	policies *policy.Live
	allows   *sync.Pool // of *allowing
}

// New returns a Server for engine that does not listen yet. It fails with a
// *weir.Error of CodeInvalidConfig that names the field at fault.
//
// New hooks huma.NewErrorWithContext once per process, for its own operations
// only: an API of the caller's that uses huma keeps its errors.
func New(engine *weir.Engine, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{engine: engine, cfg: cfg, log: cfg.Logger, policies: cfg.Policies}
	if s.policies == nil {
		none, err := policy.NewLive(engine, nil)
		if err != nil {
			return nil, err
		}
		s.policies = none
	}
	s.service = service.New(engine, service.Config{
		Journal: cfg.Journal, Cluster: cfg.Cluster, Answers: cfg.Answers,
		MaxAnswers: cfg.MaxAnswers, MaxInFlight: cfg.MaxInFlight, MaxDurable: cfg.MaxDurable,
		MaxBodyBytes: cfg.MaxBodyBytes, MaxBufferedBytes: cfg.MaxBufferedBytes,
		Policies: s.policies, MaxInlinePer: cfg.MaxInlinePer, DurableTimeout: cfg.DurableTimeout, PolicyFile: cfg.PolicyFile.state,
		Logger: cfg.Logger, Version: cfg.Version,
	})
	s.allows = &sync.Pool{New: newAllowing}
	s.metrics = newMetrics(s)
	s.ingests = s.newIngestPool()
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

// Listen opens Config.Addr, so that an address in use shows before Run. Run
// calls it when the caller has not; a second call does nothing, nor does one with
// Config.Opening.
func (s *Server) Listen() error {
	if s.listener.Load() != nil || s.cfg.Opening != nil {
		return nil
	}
	l, err := listen(s.cfg)
	if err != nil {
		return err
	}
	if !s.listener.CompareAndSwap(nil, l) {
		return l.Close()
	}
	return nil
}

func listen(cfg Config) (*conns, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Addr, err)
	}
	return limitConns(l, cfg.MaxConns), nil
}

// openToOthers tells whether other machines may reach an address.
func openToOthers(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return err == nil && !at.Addr().Unmap().IsLoopback()
}

// conns are the connections of the address listened on, nil before.
func (s *Server) conns() *conns {
	if s.cfg.Opening != nil {
		return s.cfg.Opening.conns
	}
	return s.listener.Load()
}

// Addr returns the address listened on, host:port, once Listen succeeded; it
// is "" before.
func (s *Server) Addr() string {
	if s.cfg.Opening != nil {
		return s.cfg.Opening.Addr()
	}
	if l := s.listener.Load(); l != nil {
		return l.Listener.Addr().String()
	}
	return ""
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
	s.serving = s.cfg.Opening
	if s.serving == nil {
		s.serving = open(s.cfg, s.listener.Load(), s.handler)
	}
	s.serving.handOver(s.handler)
	s.log.Info("serving", "addr", s.Addr(), "version", s.cfg.Version)
	if openToOthers(s.Addr()) {
		s.log.Warn("other machines can reach this address, and there is no authentication: anybody who reaches it can read, hit, delete and back up", "addr", s.Addr())
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
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StopTimeout)
	defer cancel()
	if err := hs.Shutdown(bounded); err != nil {
		cut := s.inFlight.Load()
		return errors.Join(fmt.Errorf("stop: %d requests were cut off after %v: %w", cut, s.cfg.StopTimeout, err), hs.Close())
	}
	s.log.Info("drained: no requests in flight")
	return nil
}
