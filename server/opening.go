package server

import (
	"crypto/tls"
	"encoding/json"
	"log"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/origin"
	"github.com/weir-counter/weir/server/pace"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service/conns"
)

// Opening is the address of a Server that is not there yet, because its journal is
// read or its node joins others: /healthz says that the process lives, and all
// else that it is not ready. A Server takes it over (Server.TakeOver).
type Opening struct {
	addr    string
	conns   *conns.Listener
	http    *http.Server
	handler atomic.Pointer[http.Handler]
	failed  chan error // buffered: Serve's goroutine ends even when nobody reads
}

// Phase is why a Server is not there yet.
type Phase struct {
	Status string // one word: joining, loading
	Detail string // what it waits for, and how far it is
}

// Open listens on cfg.Addr, so that an address in use shows before any long work, and
// answers with what phase returns; it is called for each request. cfg must be what New
// gets, but for what is not known yet. Close it if no Server takes it over.
func Open(cfg Config, phase func() Phase) (*Opening, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(0); err != nil {
		return nil, err
	}
	l, err := conns.Listen(cfg.Addr, cfg.MaxConns)
	if err != nil {
		return nil, err
	}
	cfg.Logger.Info("listening; not ready yet", "addr", l.Listener.Addr().String())
	return open(cfg, l, origin.New(notYet(phase), cfg.origins(), func() {})), nil
}

func open(cfg Config, l *conns.Listener, handler http.Handler) *Opening {
	o := &Opening{addr: l.Listener.Addr().String(), conns: l, failed: make(chan error, 1)}
	o.handOver(handler)
	o.http = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*o.handler.Load()).ServeHTTP(w, r) }),
		ReadHeaderTimeout: cfg.ReadHeaderTimeout,
		ReadTimeout:       cfg.ReadTimeout,
		WriteTimeout:      cfg.WriteTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       pace.With,
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
			problem.New(api.CodeStarting, "", is.Status+": "+is.Detail).Write(w)
			return
		}
		body, err := json.Marshal(map[string]string{"status": is.Status, "detail": is.Detail})
		if err != nil {
			panic(err) // strings only
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(body, '\n')) // a client that left is not an error of ours
	})
}
