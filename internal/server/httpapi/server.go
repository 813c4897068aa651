// Package httpapi is the HTTP listener of a service: it takes hits, answers questions about them, decides by limits,
// and describes itself (/openapi.json, /docs, /metrics).
//
// The body of a hit or a decision is parsed and its answer written without reflection (body.go, decisions.go, hits.go).
// Questions go through huma, which checks parameters and writes the OpenAPI document from the types next to each
// handler and the answers of package api. The service does all that is not HTTP.
//
// Invariants. A request has a place in a pool while it is worked on, and never while the server waits for a small body
// of its client (guard.go, hits_arrive.go). Every failure is a problem document. Whatever a client does, its connection
// moves at a minimum rate or is closed.
package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/server/metrics"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/dashboard"
)

// Server is the HTTP listener of a service. Create it with New.
type Server struct {
	service  *service.Service
	ceilings service.Config
	cfg      Config // defaults applied, valid
	log      *slog.Logger
	metrics  *metrics.Metrics
	handler  http.Handler
	needs    map[string]need // of routes, by pattern

	hits        *BodyHits
	hitRequests sync.Pool // of *requestMemory
	decisions   sync.Pool // of *allowing

	inFlight  atomic.Int64       // requests
	board     dashboard.Board    // of the pages that are open
	tops      dashboard.TopsView // that they show
	draining  atomic.Bool        // set once, when Run begins to stop
	stopping  context.Context    // ends then: answers that last do too
	beginStop context.CancelFunc

	address listener.Address
	opening *Opening // nil: it listens itself
	serving *Opening // nil before Serve
}

// New returns a Server for of that does not listen yet. It fails with a
// *engine.Error of CodeInvalidConfig that names the field at fault.
//
// New hooks huma.NewErrorWithContext once per process, for its own operations
// only: an API of the caller's that uses huma keeps its errors.
func New(of *service.Service, cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(of.Config().DurableTimeout); err != nil {
		return nil, err
	}
	s := &Server{service: of, ceilings: of.Config(), cfg: cfg, log: cfg.Logger, needs: map[string]need{}, hits: NewBodyHits(of, cfg.MaxLineBytes)}
	s.hitRequests.New = func() any { return new(requestMemory) }
	s.decisions.New = newAllowing
	s.stopping, s.beginStop = context.WithCancel(context.Background())
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
func (s *Server) conns() *listener.Listener {
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
	if access.OpenToOthers(s.Addr()) && !s.service.Locked() {
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

// Opening is the address of a Server that is not there yet, because its journal is read or its node joins others. There
// /healthz says that the process lives, and all else that it is not ready. A Server takes it over (Server.TakeOver).
type Opening struct {
	addr    string
	conns   *listener.Listener
	http    *http.Server
	handler atomic.Pointer[http.Handler]
	failed  chan error // buffered: Serve's goroutine ends even when nobody reads
}

// Phase is why a Server is not there yet.
type Phase struct {
	Status string // one word: joining, loading
	Detail string // what it waits for, and how far it is
}

// Open listens on cfg.Addr, so that an address in use shows before any long work. It answers each request with what
// phase returns. The cfg must be what New gets, except for what is not known yet. Close it if no Server takes it over.
func Open(cfg Config, phase func() Phase) (*Opening, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(0); err != nil {
		return nil, err
	}
	l, err := listener.Listen(cfg.Addr, cfg.MaxConns)
	if err != nil {
		return nil, err
	}
	cfg.Logger.Info("listening; not ready yet", "addr", l.Listener.Addr().String())
	return open(cfg, l, NewGuard(notYet(phase), cfg.origins(), func() {})), nil
}

func open(cfg Config, l *listener.Listener, handler http.Handler) *Opening {
	o := &Opening{addr: l.Listener.Addr().String(), conns: l, failed: make(chan error, 1)}
	o.handOver(handler)
	o.http = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*o.handler.Load()).ServeHTTP(w, r) }),
		ReadHeaderTimeout: cfg.ReadHeaderTimeout,
		ReadTimeout:       cfg.ReadTimeout,
		WriteTimeout:      cfg.WriteTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       WithConn,
		ErrorLog:          log.New(connectionLog{cfg.Logger}, "", 0),
	}
	var on net.Listener = l
	if cfg.TLS != nil {
		on = tls.NewListener(l, cfg.TLS)
	}
	go func() { o.failed <- o.http.Serve(on) }()
	return o
}

// Addr is the address listened on, host:port.
func (o *Opening) Addr() string { return o.addr }

// Close lets the address go. After a Server has run there it does nothing.
func (o *Opening) Close() error { return o.http.Close() }

// handOver makes another handler answer from now on.
func (o *Opening) handOver(to http.Handler) { o.handler.Store(&to) }

func notYet(phase func() Phase) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is := phase()
		if r.URL.Path != "/healthz" {
			NewProblem(api.CodeStarting, "", is.Status+": "+is.Detail).Write(w)
			return
		}
		writeJSON(w, map[string]string{"status": is.Status, "detail": is.Detail})
	})
}

// connectionLog takes what net/http has to say of connections. Of those that do not begin with
// TLS as they should, any stranger can make as many as they like: they are for debugging.
type connectionLog struct{ to *slog.Logger }

func (l connectionLog) Write(line []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug
	}
	l.to.Log(context.Background(), level, string(bytes.TrimSpace(line)))
	return len(line), nil
}
