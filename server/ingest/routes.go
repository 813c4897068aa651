package ingest

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/weir-counter/weir/server/body"
	"github.com/weir-counter/weir/server/pace"
	"github.com/weir-counter/weir/service"
)

// Config is what Routes are made of.
type Config struct {
	Service *service.Service
	Log     *slog.Logger

	// Caller is who a request comes from.
	Caller func(*http.Request) service.Caller

	Pace  pace.Pace     // with which a body must arrive
	Pause time.Duration // how long it may take longer than a request may be read

	MaxLineBytes int // of one line of a body
}

// Routes take hits. They are safe for many goroutines.
type Routes struct {
	cfg      Config
	maxBody  int64
	hits     *body.Hits
	requests sync.Pool // of *request
}

// request is what a request of hits would otherwise allocate.
type request struct {
	tally  service.Tally
	answer []byte
}

// New returns Routes that are not registered yet.
func New(cfg Config) *Routes {
	s := &Routes{cfg: cfg, maxBody: cfg.Service.Config().MaxBodyBytes, hits: body.NewHits(cfg.Service, cfg.MaxLineBytes)}
	s.requests.New = func() any { return new(request) }
	return s
}

// Mux is where handlers are registered, each under its pattern.
type Mux interface {
	HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request))
}
