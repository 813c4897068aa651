package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/weir-counter/weir/server/decide"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/origin"
	"github.com/weir-counter/weir/server/pace"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

type callerKey struct{}

// openRoute tells which routes are for everybody: an orchestrator's probe has no token, and the
// dashboard has not asked for one yet ("GET /{$}" is the handler's own affair).
func openRoute(pattern string) bool {
	return pattern == "GET /healthz" || pattern == "GET /readyz" || pattern == "GET /{$}" || strings.HasPrefix(pattern, "GET /web/")
}

// identified wraps a handler: the request is answered for the identity that sends it, or refused
// when it has none, before any of its body is read. The hot paths of a server that is not
// locked pay nothing.
func (s *Server) identified(pattern string, handler http.HandlerFunc) http.HandlerFunc {
	if openRoute(pattern) || !s.service.Locked() && hotRoute(pattern) {
		return handler
	}
	identify, how, refusal := s.identify, "Authorization: Bearer weir_..., weir --token, WEIR_TOKEN", problem.Of
	if pattern == origin.ForwardAuthPath {
		identify, how, refusal = s.identifyProxy, decide.TokenHeader+": weir_...", problem.OfProxy
	}
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := identify(r)
		if err == nil {
			err = s.known(c, how)
		}
		if err != nil {
			p := refusal(err)
			p.BearerAlone = asksByItself(r)
			p.Write(w)
			return
		}
		handler(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	}
}

func hotRoute(pattern string) bool {
	switch pattern {
	case "POST /v1/hits", "POST /v1/allow", "GET /v1/allow", origin.ForwardAuthPath:
		return true
	}
	return false
}

// asksByItself tells whether a page sent the request, and not its browser: it takes JSON or events alone. It is
// not told of Basic: the browser would ask its user, in place of the page.
func asksByItself(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return accept == "application/json" || accept == openapi.EventStream
}

// known fails where the caller has to prove an identity, and says how.
func (s *Server) known(c service.Caller, how string) error {
	err := s.service.Identify(c)
	if err != nil && !c.Known() {
		e := *service.AsError(err)
		e.Message += ": send a token (" + how + "); 'weir token create' makes one"
		return &e
	}
	return err
}

// identify reads who sends a request: by its token, else by the certificate of its
// connection.
func (s *Server) identify(r *http.Request) (service.Caller, error) {
	c := service.CallerAt(r.RemoteAddr)
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
func (s *Server) identifyProxy(r *http.Request) (service.Caller, error) {
	c := service.CallerAt(r.RemoteAddr)
	if given := r.Header[decide.TokenHeader]; len(given) > 0 {
		return s.service.WithToken(c, strings.TrimSpace(given[len(given)-1]))
	}
	return s.byCertificate(c, r)
}

func (s *Server) byCertificate(c service.Caller, r *http.Request) (service.Caller, error) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return s.service.WithCertificate(c, r.TLS.VerifiedChains[0][0])
	}
	return c, nil
}

// callerOf is who a request comes from, as its guard found out.
func callerOf(ctx context.Context) service.Caller {
	c, _ := ctx.Value(callerKey{}).(service.Caller)
	return c
}

// clientOf is callerOf, or the address where the guard need not know more.
func clientOf(r *http.Request) service.Caller {
	if c := callerOf(r.Context()); c != (service.Caller{}) {
		return c
	}
	if conn := pace.Of(r); conn != nil {
		return conn.Client()
	}
	return service.CallerAt(r.RemoteAddr)
}
