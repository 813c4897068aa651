package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

// route is one operation of the API: who may ask it, what bounds its requests, and what the OpenAPI document says.
type route struct {
	pattern string // METHOD /path; without a method: any, of which the document has GET
	id      string // of the operation
	need    need
	pool    *access.Pool // in which a request has a place from beginning to end; nil: the questions' pool, or none if the handler reads the request
	enters  bool         // the service enters a pool itself: nil of pool is none
	codes   []api.Code   // of failures, in addition to those that every route has
	status  int          // of a success; 0: 200

	summary, description string

	body    *huma.RequestBody // nil: as the type of the question says
	maxBody int64             // bytes of a body; 0: 1 MiB
}

// router registers handlers on mux, each behind its guard, and describes them in the OpenAPI document.
type router struct {
	server     *Server
	mux        *http.ServeMux
	exact      map[string]map[string]http.HandlerFunc // by path and method: of patterns without a parameter
	api        huma.API                               // serves questions by their types
	documented huma.API                               // writes the same document, and serves nothing
}

// nowhere is a mux that serves nothing.
type nowhere struct{ *http.ServeMux }

// HandleFunc implements humago.Mux.
func (nowhere) HandleFunc(string, func(http.ResponseWriter, *http.Request)) {}

// routes builds the whole handler: every route with its measurement and limits, and problem documents where no route
// matches.
func (s *Server) routes() (http.Handler, error) {
	mux := http.NewServeMux()
	to := &router{server: s, mux: mux, exact: map[string]map[string]http.HandlerFunc{}}
	document := newDocument(s.ceilings.Version)
	to.api, to.documented = humago.New(to, document), humago.New(nowhere{mux}, document)

	to.handle("GET /healthz", need{open: true}, nil, s.healthz)
	to.handle("GET /readyz", need{open: true}, nil, s.readyz)
	to.handle("GET /metrics", readsAll, nil, s.scrape(s.metrics.Handler()))
	s.registerHits(to)
	s.registerPageViews(to)
	s.registerDecisions(to)
	s.registerLimits(to)
	s.registerLimitChanges(to)
	s.registerPermits(to)
	s.registerPolicies(to)
	s.registerCounts(to)
	s.registerKeys(to)
	s.registerViews(to)
	s.registerCluster(to)
	s.registerRegions(to)
	s.registerBackup(to)
	if err := to.registerDocs(); err != nil {
		return nil, err
	}
	s.registerDashboard(to)
	to.handle("/", need{}, nil, noRoute(mux))
	return NewGuard(keyInPath(to), s.cfg.origins(), s.metrics.Forbidden), nil
}

// handle registers a handler for callers with a need, whose requests have a place in a pool, if it is not nil.
func (to *router) handle(pattern string, needed need, pool *access.Pool, handler http.HandlerFunc) {
	needed.pool = pool
	to.server.needs[pattern] = needed
	to.HandleFunc(pattern, handler)
}

// HandleFunc implements humago.Mux. The need of the pattern must be known.
func (to *router) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	guarded := to.server.guard(pattern, handler)
	to.mux.Handle(pattern, guarded)
	method, path, ok := strings.Cut(pattern, " ")
	if !ok || strings.ContainsAny(path, "{}") {
		return
	}
	if to.exact[path] == nil {
		to.exact[path] = map[string]http.HandlerFunc{}
	}
	to.exact[path][method] = guarded
}

// ServeHTTP implements humago.Mux. Most requests are for a path that is a pattern as it stands, which the mux would find
// the long way.
func (to *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if guarded := to.exact[req.URL.Path][req.Method]; guarded != nil && req.URL.RawPath == "" {
		guarded(w, req)
		return
	}
	to.mux.ServeHTTP(w, req)
}

// answer is what huma writes as JSON.
type answer[A any] struct{ Body A }

// serve registers a question: I has its parameters, and A is the answer.
func serve[I, A any](to *router, r route, handler func(context.Context, access.Caller, *I) (A, error)) {
	respond(to, r, func(ctx context.Context, c access.Caller, in *I) (*answer[A], error) {
		made, err := handler(ctx, c, in)
		return &answer[A]{made}, err
	})
}

// respond is serve for an answer with a status or header fields, or without a body: O has them as huma wants it.
func respond[I, O any](to *router, r route, handler func(context.Context, access.Caller, *I) (*O, error)) {
	huma.Register(to.api, to.question(&r), func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, callerOf(ctx), in)
		if err != nil {
			return nil, ProblemOf(err)
		}
		return out, nil
	})
}

// describe registers a handler that reads the request and writes the answer itself, as those do that are hot or stream. I and
// O describe both, as if huma did. It returns the responses of the document, for what types can't say.
func describe[I, O any](to *router, r route, handler http.HandlerFunc) map[string]*huma.Response {
	op := to.operation(&r)
	huma.Register(to.documented, op, func(context.Context, *I) (*O, error) { panic("nothing is served here") })
	to.handle(r.pattern, r.need, r.pool, handler)
	return op.Responses
}

// question is an operation that huma serves, with a place among the questions if its route names no other pool.
func (to *router) question(r *route) huma.Operation {
	r.codes = append(slices.Clip(r.codes), api.CodeInvalidParameter, api.CodeUnknownParameter, api.CodeOverloaded)
	op := to.operation(r)
	op.Metadata = map[string]any{logOf: to.server.log}
	op.Middlewares = huma.Middlewares{checkParams}
	if r.need.pool = r.pool; r.pool == nil && !r.enters {
		r.need.pool = to.server.service.Pools.Questions
	}
	to.server.needs[r.pattern] = r.need
	return op
}

// operation is what the document says of a route, without what the types of its question and answer say.
func (to *router) operation(r *route) huma.Operation {
	method, path, ok := strings.Cut(r.pattern, " ")
	if !ok {
		method, path = http.MethodGet, r.pattern
	}
	return huma.Operation{
		OperationID: r.id, Method: method, Path: path, Summary: r.summary, Description: r.description,
		DefaultStatus: r.status, MaxBodyBytes: r.maxBody, RequestBody: r.body, Responses: to.responses(r.codes...),
	}
}

// noRoute answers what no other pattern took: 405 when the path is known under another method, else 404.
func noRoute(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
			if _, pattern := mux.Handler(probe); pattern != "/" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			NewProblem(api.CodeNotFound, "", "nothing is at "+request.Clip(r.URL.Path)+": /docs lists what is").Write(w)
			return
		}
		methods := strings.Join(allowed, ", ")
		w.Header().Set("Allow", methods)
		NewProblem(api.CodeMethodNotAllowed, "", request.Clip(r.URL.Path)+" takes "+methods).Write(w)
	}
}

const limitPrefix = "/v1/limits/"

// namesInPath are the routes whose one path parameter may have slashes: everything between prefix and suffix.
var namesInPath = []struct{ prefix, suffix string }{
	{"/v1/keys/", ""},
	{limitPrefix, "/keys"},
	{"/v1/policies/", ""},
}

// keyInPath makes one path segment of the key after /v1/keys/, and of the name of a limit, whether its slashes came raw
// or percent-encoded. ServeMux would "clean" a raw key such as a//b/../c into the name of another key.
func keyInPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, route := range namesInPath {
			rest, ok := strings.CutPrefix(r.URL.Path, route.prefix)
			if !ok {
				continue
			}
			if name, key, both := strings.Cut(rest, "/keys/"); both && route.prefix == limitPrefix && name != "" && key != "" {
				r = withPath(r, limitPrefix+twoSegments(r.URL.EscapedPath()[len(limitPrefix):], name, key))
				continue
			}
			if key, ok := strings.CutSuffix(rest, route.suffix); ok && key != "" {
				r = withPath(r, route.prefix+encodeSegment(key)+route.suffix)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// withPath is a request for another spelling of its path.
func withPath(r *http.Request, raw string) *http.Request {
	u := *r.URL
	u.RawPath = raw
	shallow := *r
	shallow.URL = &u
	return &shallow
}

// twoSegments is NAME/keys/KEY of a path with both encoded. A name that has /keys/ itself must come
// percent-encoded, else the first one ends the name.
func twoSegments(escaped, name, key string) string {
	if first, second, ok := strings.Cut(escaped, "/keys/"); ok {
		n, badName := url.PathUnescape(first)
		k, badKey := url.PathUnescape(second)
		if badName == nil && badKey == nil {
			name, key = n, k
		}
	}
	return encodeSegment(name) + "/keys/" + encodeSegment(key)
}

// encodeSegment is url.PathEscape that also encodes a key of "." or "..",
// which ServeMux would take for steps in the path.
func encodeSegment(key string) string {
	if strings.Trim(key, ".") == "" {
		return strings.ReplaceAll(key, ".", "%2E")
	}
	return url.PathEscape(key)
}
