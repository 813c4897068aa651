package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/web"
)

// routes builds the whole handler: every route with its measurement and
// limits, and problem documents where no route matches.
func (s *Server) routes() (http.Handler, error) {
	mux := http.NewServeMux()
	to := &router{server: s, mux: mux, exact: map[string]map[string]http.HandlerFunc{}}

	to.HandleFunc("GET /healthz", s.healthz)
	to.HandleFunc("GET /readyz", s.readyz)
	to.HandleFunc("GET /metrics", s.scrape(s.metrics.Handler()))
	doc := NewAPI(to, s.ceilings.Version, s.log)
	s.ingest.Register(doc, to)
	NewDecisions(DecisionsConfig{Service: s.service, Log: s.log, Caller: clientOf, Upload: s.ingest.Upload}).Register(doc, to)
	s.registerLimits(doc)
	s.registerForget(doc)
	s.registerDenials(doc)
	s.registerPermits(doc)
	s.registerLimitChanges(doc)
	s.registerSettle(doc)
	s.registerBans(doc)
	s.registerPolicies(doc)
	s.registerCount(doc)
	s.registerSeries(doc)
	s.registerTop(doc)
	s.registerKeys(doc)
	s.registerViews(doc)
	s.registerStats(doc)
	s.registerCluster(doc)
	s.registerRemove(doc)
	s.registerRegions(doc, to)
	s.registerBackup(doc, to)
	s.registerRestore(doc, to)
	s.registerExport(doc, to)
	if err := doc.RegisterDocs(to); err != nil {
		return nil, err
	}
	s.registerDashboard(to)
	to.HandleFunc("/", noRoute(mux))
	return NewGuard(keyInPath(to), s.cfg.origins(), s.metrics.Forbidden), nil
}

// router registers handlers on mux and measures each under its pattern.
type router struct {
	server *Server
	mux    *http.ServeMux
	exact  map[string]map[string]http.HandlerFunc // by path and method: of patterns without a parameter
}

// HandleFunc is what humago asks of a mux.
func (r *router) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	guarded := r.server.guard(pattern, handler)
	r.mux.Handle(pattern, guarded)
	method, path, ok := strings.Cut(pattern, " ")
	if !ok || strings.ContainsAny(path, "{}") {
		return
	}
	if r.exact[path] == nil {
		r.exact[path] = map[string]http.HandlerFunc{}
	}
	r.exact[path][method] = guarded
}

// ServeHTTP is what humago asks of a mux. Most requests are for a path that is a pattern as it stands,
// which the mux would find the long way.
func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if guarded := r.exact[req.URL.Path][req.Method]; guarded != nil && req.URL.RawPath == "" {
		guarded(w, req)
		return
	}
	r.mux.ServeHTTP(w, req)
}

// noRoute answers what no other pattern took: 405 when the path is known under
// another method, else 404.
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

// namesInPath are the routes whose one path parameter may have slashes: everything
// between prefix and suffix.
var namesInPath = []struct{ prefix, suffix string }{
	{"/v1/keys/", ""},
	{limitPrefix, "/keys"},
	{"/v1/policies/", ""},
}

// keyInPath makes one path segment of the key after /v1/keys/, and of the name of a
// limit, whether its slashes came raw or percent-encoded, before ServeMux would "clean"
// a raw key such as a//b/../c into the name of another key.
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

// healthz says that the process lives; restarting it when this fails is right.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { writeOK(w) }

// readyz says whether to send requests here, and what is wrong. With alarms=none it is 200 only while nothing is wrong: a rolling
// update waits for that, and a load balancer must not, or it would take all nodes out at once.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	answer, refusing := s.service.Ready()
	if refusing == nil && len(answer.Alarms) > 0 && r.URL.Query().Get("alarms") == "none" {
		refusing = &answer.Alarms[0]
	}
	switch {
	case s.draining.Load():
		NewProblem(api.CodeStopping, "", "this server is stopping: use another").Write(w)
	case refusing != nil:
		p := NewProblem(api.CodeJournalFailing, "", refusing.Message)
		p.Code, p.Alarms = api.Code(refusing.Code), answer.Alarms
		p.Write(w)
	default:
		writeReady(w, answer)
	}
}

func writeReady(w http.ResponseWriter, answer api.Ready) {
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // strings and numbers only
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // a client that left is not an error of ours
}

func writeOK(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{\"status\":\"ok\"}\n") // a client that left is not an error of ours
}

type statsOutput struct{ Body api.StatsAnswer }

func (s *Server) registerStats(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "stats", Method: http.MethodGet, Path: "/v1/stats",
		Summary: "What the server holds and what it dropped",
	}, []api.Code{api.CodeClosed}, func(ctx context.Context, _ *struct{}) (*statsOutput, error) {
		answer, err := s.service.Stats(callerOf(ctx))
		return &statsOutput{answer}, ProblemOrNil(err)
	})
}

// scrapesAtOnce bounds what metrics cost; more wait for a moment.
const scrapesAtOnce = 4

// scrape has metrics made before any of them are sent: a client that does not take them
// keeps no other one waiting.
func (s *Server) scrape(metrics http.Handler) http.HandlerFunc {
	places := make(chan struct{}, scrapesAtOnce)
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.service.MayReadFigures(callerOf(r.Context())); err != nil {
			ProblemOf(err).Write(w)
			return
		}
		select {
		case places <- struct{}{}:
		case <-r.Context().Done():
			return // nobody reads it
		}
		made := &madeAnswer{header: w.Header(), status: http.StatusOK}
		func() {
			defer func() { <-places }()
			metrics.ServeHTTP(made, r)
		}()
		w.WriteHeader(made.status)
		_, _ = s.paced(w).Write(made.body.Bytes()) // a client that left is not an error of ours
	}
}

// madeAnswer is an answer in memory.
type madeAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (m *madeAnswer) Header() http.Header         { return m.header }
func (m *madeAnswer) WriteHeader(status int)      { m.status = status }
func (m *madeAnswer) Write(p []byte) (int, error) { return m.body.Write(p) }

// registerDashboard serves the dashboard to browsers. Its page and files are the same for
// everybody, so that they need no token: the page asks its user for one. Others are sent from / to the
// description of the API.
func (s *Server) registerDashboard(mux *router) {
	docs := s.identified("GET /docs", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/docs", http.StatusFound) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			web.Page(w, r)
			return
		}
		docs(w, r)
	})
	for name := range web.Files {
		mux.HandleFunc("GET /web/"+name, web.File(name))
	}
}
