package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

// guard wraps a handler with what every request gets: its place, the measurement,
// the log line, and an answer when it panics.
func (s *Server) guard(pattern string, handler http.HandlerFunc) http.HandlerFunc {
	observe := s.metrics.Route(pattern)
	needed, known := s.needs[pattern]
	if !known {
		panic("nothing says who may ask " + pattern)
	}
	if needed.pool != nil {
		handler = s.within(needed.pool, handler)
	}
	handler = s.identified(pattern, handler)
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		c := ConnOf(r)
		c.WaitsFrom(start, false)
		span := s.cfg.Tracer.Begin(pattern, r.Header)
		if span != nil {
			span.Set("weir.listener", "http")
			r = r.WithContext(span.Into(r.Context()))
		}
		defer func() {
			if v := recover(); v != nil {
				s.recovered(rec, r, v)
			}
			end := time.Now()
			c.WaitsFrom(end, true)
			took := end.Sub(start)
			observe(rec.status, took, span.TraceID())
			if span != nil {
				span.Set("http.response.status_code", rec.status)
				if rec.status >= http.StatusInternalServerError {
					span.Fail(http.StatusText(rec.status))
				}
				span.End()
			}
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

// within gives a request a place in the pool until its client has taken the answer, which must not be slower than
// minRate.
func (s *Server) within(pool *access.Pool, handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		client := clientOf(r)
		if err := pool.Enter(client, 1); err != nil {
			ProblemOf(err).Write(w)
			return
		}
		defer pool.Leave(client, 1)
		handler(s.timed(w), r)
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
		NewProblem(api.CodeInternal, "", "the server failed to answer; its log says why").Write(rec)
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

func (s *Server) minRate() MinRate { return MinRate{Left: s.cfg.ReadTimeout, Rate: s.cfg.MinRate} }

// timed is an answer that must be taken in time.
func (s *Server) timed(w http.ResponseWriter) *TimedWriter { return NewTimedWriter(w, s.minRate()) }

type callerKey struct{}

// identified wraps a handler: the request is answered for the identity that sends it, or refused when it has none,
// before any of its body is read. The hot paths of a server that is not locked pay nothing.
func (s *Server) identified(pattern string, handler http.HandlerFunc) http.HandlerFunc {
	needed := s.needs[pattern]
	if needed.open || needed.hot && !s.service.Locked() {
		return handler
	}
	identify, hint, refusal := s.identify, "Authorization: Bearer weir_..., weir --token, WEIR_TOKEN", ProblemOf
	if pattern == ForwardAuthPath {
		identify, hint, refusal = s.identifyProxy, TokenHeader+": weir_...", ProblemOfProxy
	}
	if pattern == sitePattern {
		identify = s.identifyReader
	}
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := identify(r)
		if err == nil {
			err = s.known(c, hint)
		}
		if err == nil {
			err = s.service.Permit(c, needed.Need, needed.keysNamed(r)...)
		}
		if err != nil {
			if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && request.As(err).Code == api.CodeUnauthorized {
				w.Header().Set("Connection", "close") // a new connection shows a renewed certificate
			}
			p := refusal(err)
			p.BearerAlone = asksByItself(r)
			p.Write(w)
			return
		}
		handler(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	}
}

// asksByItself reports whether a page sent the request, and not its browser: it takes JSON alone. Its problem does not offer
// Basic: the browser would ask its user, in place of the page.
func asksByItself(r *http.Request) bool { return r.Header.Get("Accept") == "application/json" }

// known fails where the caller has to prove an identity, and says how.
func (s *Server) known(c access.Caller, hint string) error {
	err := s.service.Identify(c)
	if err != nil && !c.Known() {
		e := *request.As(err)
		e.Message += ": send a token (" + hint + "); 'weir token create' makes one"
		return &e
	}
	return err
}

// identify reads who sends a request: by its token, else by the certificate of its connection.
func (s *Server) identify(r *http.Request) (access.Caller, error) {
	c := access.CallerAt(r.RemoteAddr)
	if given := r.Header["Authorization"]; len(given) > 0 { // the literal form: no look-up of another one
		if scheme, token, ok := strings.Cut(given[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
			return s.service.WithToken(c, strings.TrimSpace(token))
		}
		user, password, _ := r.BasicAuth() // what is neither has no password, and is refused
		return s.service.WithPassword(c, user, password)
	}
	return s.byCertificate(c, r)
}

// identifyProxy is identify for a proxy that passes its client's fields along.
func (s *Server) identifyProxy(r *http.Request) (access.Caller, error) {
	c := access.CallerAt(r.RemoteAddr)
	if given := r.Header[TokenHeader]; len(given) > 0 {
		return s.service.WithToken(c, strings.TrimSpace(given[len(given)-1]))
	}
	return s.byCertificate(c, r)
}

func (s *Server) byCertificate(c access.Caller, r *http.Request) (access.Caller, error) {
	if r.TLS == nil {
		return c, nil
	}
	return s.service.WithCertificate(c, r.TLS.VerifiedChains)
}

// callerOf is who a request comes from, as its guard found out.
func callerOf(ctx context.Context) access.Caller {
	c, _ := ctx.Value(callerKey{}).(access.Caller)
	return c
}

// clientOf is callerOf, or the address where the guard need not know more.
func clientOf(r *http.Request) access.Caller {
	if c := callerOf(r.Context()); c != (access.Caller{}) {
		return c
	}
	if conn := ConnOf(r); conn != nil {
		return conn.Client()
	}
	return access.CallerAt(r.RemoteAddr)
}

// need is what a route needs of its caller. The guard checks it before anything else of a request is parsed, so that a
// request that its caller may not make is refused for that reason, however it is written. Keys in bodies, and the template of
// forward-auth, are checked once they are read. The zero need is for every caller with an identity.
type need struct {
	access.Need
	keys []string     // names of parameters, in the path or the query, with the keys that a request is about
	pool *access.Pool // in which a request has a place from beginning to end; nil: none, or the handler enters one itself

	// open is for callers without an identity too: the probe of an orchestrator has no token, and the dashboard has not asked
	// for one yet.
	open bool
	// hot is for callers whose identity is not looked for on a server that is not locked.
	hot bool
}

var (
	anyRole    = need{}
	decides    = needOf(auth.Decide)
	decidesKey = needOf(auth.Decide, "key")
	reads      = needOf(auth.Read)
	readsKey   = needOf(auth.Read, "key")
	readsAll   = need{Need: access.Need{Roles: []auth.Role{auth.Read}, All: true}}
)

func needOf(role auth.Role, keys ...string) need {
	return need{Need: access.Need{Roles: []auth.Role{role}}, keys: keys}
}

func administers(action string, keys ...string) need {
	n := needOf(auth.Admin, keys...)
	n.Action = action
	return n
}

func administersAll(action string) need {
	n := administers(action)
	n.All = true
	return n
}

// isHot is a need of the hot paths.
func (n need) isHot() need {
	n.hot = true
	return n
}

// audited is a need whose action is noted in the audit log.
func (n need) audited(action string) need {
	n.Action = action
	return n
}

// keysNamed lists the keys that a request names in its path and query, except those that can't be decoded.
func (n need) keysNamed(r *http.Request) (keys []string) {
	for _, name := range n.keys {
		if key := r.PathValue(name); key != "" {
			keys = append(keys, key)
		}
		for rest := r.URL.RawQuery; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, "&")
			given, value, _ := strings.Cut(pair, "=")
			if given != name || value == "" {
				continue
			}
			if key, err := url.QueryUnescape(value); err == nil {
				keys = append(keys, key)
			}
		}
	}
	return keys
}
