package server

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/origin"
	"github.com/weir-counter/weir/server/pace"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

// guard wraps a handler with what every request gets: its place, the measurement,
// the log line, and an answer when it panics.
func (s *Server) guard(pattern string, handler http.HandlerFunc) http.HandlerFunc {
	observe := s.metrics.Route(pattern)
	if pool := poolOf(s.service.Pools, pattern); pool != nil {
		handler = s.within(pool, handler)
	}
	handler = s.identified(pattern, handler)
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		c := pace.Of(r)
		c.WaitsFrom(start, false)
		defer func() {
			if v := recover(); v != nil {
				s.recovered(rec, r, v)
			}
			end := time.Now()
			c.WaitsFrom(end, true)
			took := end.Sub(start)
			observe(rec.status, took)
			if s.log.Enabled(r.Context(), slog.LevelDebug) { // or its arguments are made for nobody
				s.log.DebugContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path, "route", pattern,
					"status", rec.status, "took", took, "remote", r.RemoteAddr)
			}
		}()
		s.inFlight.Add(1)
		defer s.inFlight.Add(-1)
		handler(rec, r)
	}
}

// within gives a request a place of the pool until its answer is taken, which has to be
// with a pace.
func (s *Server) within(pool *service.Pool, handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		client := clientOf(r)
		if err := pool.Enter(client, 1); err != nil {
			problem.Of(err).Write(w)
			return
		}
		defer pool.Leave(client, 1)
		handler(s.paced(w), r)
	}
}

func (s *Server) recovered(rec *recorder, r *http.Request, v any) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v) // net/http's own way to drop a connection
	}
	var lost *net.OpError
	if err, ok := v.(error); ok && errors.As(err, &lost) {
		// huma panics when it cannot write its answer: the client left.
		s.log.DebugContext(r.Context(), "answer not taken", "path", r.URL.Path, "error", err)
		return
	}
	s.log.ErrorContext(r.Context(), "panic", "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
	if !rec.wrote {
		problem.New(api.CodeInternal, "", "the server failed to answer; its log says why").Write(rec)
	}
	rec.status = http.StatusInternalServerError
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	wrote  bool // the header has left
}

func (r *recorder) WriteHeader(status int) {
	if !r.wrote {
		r.status, r.wrote = status, true
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.wrote = true
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (s *Server) pace() pace.Pace { return pace.Pace{Left: s.cfg.ReadTimeout, Rate: s.cfg.MinRate} }

// paced is an answer that has to be taken with a pace.
func (s *Server) paced(w http.ResponseWriter) *pace.Writer { return pace.NewWriter(w, s.pace()) }

// poolOf is the pool that a route's requests are in from beginning to end; nil: none, or the
// handler enters some by itself.
func poolOf(p *service.Pools, pattern string) *service.Pool {
	switch pattern {
	case "GET /healthz", "GET /readyz", "GET /metrics", "/",
		"GET /docs", "GET /docs/page.js", "GET /docs/page.css", "GET /openapi.json", "GET /{$}", "GET /docs/{$}", "GET /web/app.js", "GET /web/app.css", "GET /web/icon.svg",
		"POST /v1/hits", "POST /v1/allow", "POST /v1/refund", "POST /v1/reserve", "POST /v1/settle", "GET /v1/allow", origin.ForwardAuthPath, "GET /v1/backup", "POST /v1/restore", "GET /v1/export", "GET " + feedPath:
		return nil
	case "GET /v1/views/overview", "GET /v1/views/key", "GET /v1/views/limits", "GET /v1/views/nodes":
		return p.Views
	case "GET /v1/stats", "GET /v1/cluster", "DELETE /v1/keys", "DELETE /v1/keys/{key}", "DELETE /v1/cluster/nodes/{node}", "GET /v1/regions", "DELETE /v1/regions/{region}", "DELETE /v1/limits/inline",
		"DELETE /v1/limits/{name}/keys/{key}", "POST /v1/grants", "PUT /v1/policies/{name}", "DELETE /v1/policies/{name}":
		return p.Admin
	}
	return p.Questions
}
