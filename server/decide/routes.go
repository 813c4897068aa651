package decide

import (
	"log/slog"
	"net/http"
	"sync"

	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/service"
)

// Config is what Routes are made of.
type Config struct {
	Service *service.Service
	Log     *slog.Logger

	// Caller is who a request comes from.
	Caller func(*http.Request) service.Caller

	// Upload takes a place for a body that arrives while it is read; leave gives it back. It fails with the error to answer.
	Upload func(http.ResponseWriter, *http.Request) (leave func(), err error)
}

// Routes answer requests for decisions. They are safe for many goroutines.
type Routes struct {
	service *service.Service
	log     *slog.Logger
	caller  func(*http.Request) service.Caller
	upload  func(http.ResponseWriter, *http.Request) (leave func(), err error)
	maxBody int64
	states  sync.Pool // of *allowing
}

// New returns Routes that are not registered yet.
func New(cfg Config) *Routes {
	s := &Routes{service: cfg.Service, log: cfg.Log, caller: cfg.Caller, upload: cfg.Upload, maxBody: cfg.Service.Config().MaxBodyBytes}
	s.states.New = newAllowing
	return s
}

// Mux is where handlers are registered, each under its pattern.
type Mux interface {
	HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request))
}

// Register routes all of them, and describes them in doc.
func (s *Routes) Register(doc *openapi.API, mux Mux) {
	s.registerAllow(doc, mux)
	s.registerAllowQuery(doc, mux)
	s.registerRefund(doc, mux)
	s.registerReserve(doc, mux)
	s.registerForwardAuth(doc, mux)
}
