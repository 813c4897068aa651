// Package httpapi is the HTTP listener of a service: it takes hits, answers questions about them, decides by limits,
// and describes itself (/openapi.json, /docs, /metrics).
//
// The body of a hit or a decision is parsed and its answer written without reflection (body.go, decisions.go, hits.go).
// Questions go through huma, which checks parameters and writes the OpenAPI document from the types next to each
// handler and the answers of package api. The service does all that is not HTTP.
//
// Invariants. A request has a place in a pool while it is worked on, and never while the server waits for a small body
// of its client (guard.go, hits.go). Every failure is a problem document. Whatever a client does, its connection
// moves at a minimum rate or is closed.
package httpapi

import (
	"bytes"
	"cmp"
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
	"github.com/weir-counter/weir/internal/service/pageviews"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/tracing"
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

	pages       *pageviews.Counter
	hits        *BodyHits
	hitRequests sync.Pool // of *requestMemory
	decisions   sync.Pool // of *allowing

	inFlight  atomic.Int64      // requests
	views     dashboard.Answers // of the pages that are open
	lists     dashboard.Answers // of keys that they show
	draining  atomic.Bool       // set once, when Run begins to stop
	stopping  context.Context   // ends then: answers that last do too
	beginStop context.CancelFunc

	address listener.Address
	opening *Opening // nil: it listens itself
	serving *Opening // nil before Serve
}

// New returns a Server for svc that does not listen yet. It fails with a
// *engine.Error of CodeInvalidConfig that names the field at fault.
//
// New hooks huma.NewErrorWithContext once per process, for its own operations
// only: an API of the caller's that uses huma keeps its errors.
func New(svc *service.Service, cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(svc.Config().DurableTimeout); err != nil {
		return nil, err
	}
	s := &Server{service: svc, ceilings: svc.Config(), cfg: cfg, log: cfg.Logger, needs: map[string]need{}, hits: NewBodyHits(svc, cfg.MaxLineBytes)}
	sites, err := pageviews.ParseSites(cfg.Web)
	if err != nil {
		return nil, settings.Invalid("Web", err.Error())
	}
	s.pages = pageviews.New(sites, svc.Ingestion, svc.Backend().Engine)
	s.hitRequests.New = func() any { return new(requestMemory) }
	s.decisions.New = newAllowing
	s.stopping, s.beginStop = context.WithCancel(context.Background())
	s.metrics = metrics.New(svc, metrics.HTTP{InFlight: s.inFlight.Load, Conns: s.conns})
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

// Listen opens Config.Addr, so that an address in use shows before Run. Run calls it when the caller has not; a second
// call does nothing, nor does one after TakeOver.
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

// Addr returns the address listened on, host:port, once Listen succeeded; it is "" before.
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

// Run serves until ctx is done and then stops: /readyz turns 503, DrainDelay passes, the listener closes, and requests
// in flight get StopTimeout to finish. It returns nil after a clean stop. A Server runs once.
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
// phase returns. cfg must be as for New, except for fields that are not known yet. Close it if no Server takes it over.
func Open(cfg Config, phase func() Phase) (*Opening, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(0); err != nil {
		return nil, err
	}
	l, err := listener.Listen(cfg.Addr, cfg.MaxConns)
	if err != nil {
		return nil, err
	}
	cfg.Logger.Info("listening; not ready yet", "addr", l.Address())
	return open(cfg, l, NewGuard(notYet(phase), cfg.origins(), func() {})), nil
}

func open(cfg Config, l *listener.Listener, handler http.Handler) *Opening {
	o := &Opening{addr: l.Address(), conns: l, failed: make(chan error, 1)}
	o.handOver(handler)
	o.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if len(r.TransferEncoding) > 0 { // it may have had a Content-Length too, which net/http drops (RFC 9112, 6.3)
				w.Header()["Connection"] = closes
			}
			(*o.handler.Load()).ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: cfg.ReadHeaderTimeout,
		ReadTimeout:       cfg.ReadTimeout,
		WriteTimeout:      cfg.WriteTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         protocols(),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: cfg.IdleTimeout, PingTimeout: cfg.ReadTimeout},
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

// maxStreams bounds the requests under way on a connection of HTTP/2, which is closed for another by its last request alone
// (listener.ConnLimit).
const maxStreams = 100

// protocols are HTTP/1.1, HTTP/2 over TLS, and HTTP/2 of clients that know that the server speaks it (RFC 9113, 3.3).
func protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return &p
}

// closes is shared by answers, which do not write to it.
var closes = []string{"close"}

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

// Config is what a Server needs to know of HTTP; the service.Config holds for all listeners. The zero value of each
// field stands for its default.
type Config struct {
	// Addr is the TCP address to listen on, host:port, or a Unix socket, unix:/path; port 0 picks a free one. Default 127.0.0.1:8080.
	Addr string
	// TLS of connections; nil: none. Offer h2 and http/1.1 in NextProtos.
	TLS *tls.Config

	// AllowHosts are names that clients reach this server by: a name, *.example.com, or * for all, which takes the
	// protection of browsers' users away. Requests for other names are refused. Always allowed are names that no
	// stranger can own: IP addresses, names without a dot, .localhost, .internal, this machine's name and the host of
	// Addr.
	AllowHosts []string
	// AllowOrigins are sites whose pages may ask this server from a browser,
	// scheme://host[:port]. Default none: only its own pages.
	AllowOrigins []string

	// Web are sites whose page views count, each a host. Options follow: ;badge or ;public if everybody may see how many, or
	// the page of the site, and ;proxies=N where the guess of one proxy at a private address is wrong.
	// Default none; 100 at most.
	Web []string

	// MaxLineBytes bounds one line, or one element of a JSON array. A longer
	// one is rejected alone. Default 8 KiB, 1 KiB to 1 MiB.
	MaxLineBytes int
	// MaxConns bounds open connections. One more takes the place of the one that waits longest for its client, of the
	// client address with most. Default 4096, 1 to 1,000,000.
	MaxConns int

	// ReadHeaderTimeout bounds the time a client takes to send a request's header. Default 5 s.
	ReadHeaderTimeout time.Duration
	// ReadTimeout bounds the time a client takes to send a request, or to take an
	// answer. There is a second more for each MinRate bytes of a large one. Default 10 s.
	ReadTimeout time.Duration
	// MinRate is how fast a client must send large bodies, and take large answers and
	// backups, in bytes per second, after ReadTimeout. Default 64 KiB, 1 KiB to 1 GiB.
	MinRate int64
	// WriteTimeout bounds a request from its header to the end of its answer, so it must be longer than ReadTimeout and
	// the service's DurableTimeout together. What MinRate adds for large bodies and answers comes on top. Default 60 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long a kept connection may wait for its next request. Default 2 min.
	IdleTimeout time.Duration
	// DrainDelay is how long /readyz says 503 before the listener closes, for
	// load balancers that need to see it. Default 0: close at once.
	DrainDelay time.Duration
	// StopTimeout bounds how long requests in flight may take to finish after
	// that; then their connections are cut. Default 15 s.
	StopTimeout time.Duration

	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
	// Tracer makes spans of requests; nil: there are none.
	Tracer *tracing.Tracer
}

// maxHeaderBytes bounds a request's header. A question names up to MaxAnswers
// keys in its URL, hence more than a browser would need.
const maxHeaderBytes = 256 << 10

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c Config) WithDefaults() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:8080")
	c.MaxLineBytes = cmp.Or(c.MaxLineBytes, 8<<10)
	c.MinRate = cmp.Or(c.MinRate, 64<<10)
	c.MaxConns = cmp.Or(c.MaxConns, 4096)
	c.ReadHeaderTimeout = cmp.Or(c.ReadHeaderTimeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 10*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 60*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 2*time.Minute)
	c.StopTimeout = cmp.Or(c.StopTimeout, 15*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Validate returns a *engine.Error of CodeInvalidConfig that names the first field outside what it may be, for a Server
// of a service with DurableTimeout durable. New does the same: this is for code that opens other things before it.
func (c Config) Validate(durable time.Duration) error {
	c = c.WithDefaults()
	if err := settings.CheckListen(c.Addr); err != nil {
		return err
	}
	if err := c.origins().Validate(); err != nil {
		return err
	}
	if _, err := pageviews.ParseSites(c.Web); err != nil {
		return settings.Invalid("Web", err.Error())
	}
	if err := settings.CheckNumbers(
		settings.Number{Field: "MaxLineBytes", Value: int64(c.MaxLineBytes), Low: 1 << 10, High: 1 << 20},
		settings.Number{Field: "MinRate", Value: c.MinRate, Low: 1 << 10, High: 1 << 30},
		settings.Number{Field: "MaxConns", Value: int64(c.MaxConns), Low: 1, High: 1_000_000},
	); err != nil {
		return err
	}
	return settings.CheckDurations(
		settings.Duration{Field: "ReadHeaderTimeout", Value: c.ReadHeaderTimeout, Low: time.Millisecond, High: settings.MaxTimeout},
		settings.Duration{Field: "ReadTimeout", Value: c.ReadTimeout, Low: time.Millisecond, High: settings.MaxTimeout},
		settings.Duration{Field: "WriteTimeout", Value: c.WriteTimeout, Low: c.ReadTimeout + durable + 1, High: settings.MaxTimeout},
		settings.Duration{Field: "IdleTimeout", Value: c.IdleTimeout, Low: time.Millisecond, High: settings.MaxTimeout},
		settings.Duration{Field: "DrainDelay", Value: c.DrainDelay, Low: 0, High: settings.MaxTimeout},
		settings.Duration{Field: "StopTimeout", Value: c.StopTimeout, Low: time.Millisecond, High: settings.MaxTimeout},
	)
}

func (c Config) origins() GuardConfig {
	return GuardConfig{Addr: c.Addr, Hosts: c.AllowHosts, Origins: c.AllowOrigins}
}
