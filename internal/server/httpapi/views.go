package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/dashboard"
)

type overviewQuestion struct {
	Window string `query:"window" default:"5m" doc:"The window that keys are listed for, whole seconds from 1s to 1000000000s." example:"5m"`
	N      int    `query:"n" default:"15" minimum:"1" maximum:"100" doc:"How many keys."`
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
}

type keyViewQuestion struct {
	Key    string   `query:"key" required:"true" doc:"The key. * counts all hits except of limit: keys." example:"url:/home"`
	Window string   `query:"window" default:"1h" doc:"The window of the lines, whole seconds." example:"1h"`
	With   []string `query:"with,explode" maxItems:"4" doc:"Another key to compare with; may be repeated." example:"url:/cart"`
}

type limitsViewQuestion struct {
	Window string `query:"window" default:"5m" doc:"The window of decisions, whole seconds." example:"5m"`
	Name   string `query:"name" doc:"The policy whose fullest keys are listed." example:"login"`
}

type logQuestion struct {
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	For    string `query:"for" default:"1s" doc:"How long an answer that is no stream waits for what comes, 10s at most." example:"1s"`
}

const viewDescription = "What a page of the dashboard shows, in one answer. With `Accept: text/event-stream` it is sent again and again, about once a second, less often when it takes long to make: " +
	"it is made once for all who look at the same."

const logDescription = "Hits and denials as this node takes them: of few all, of many a sample, and how large a share it is. Hits and denials are noted only while a client asks: one answer has those after the question. " +
	"With `Accept: text/event-stream` it is sent again and again, about once a second."

// longestLog is the longest time that an answer of the live log waits.
const longestLog = 10 * time.Second

// pageView is what a page of the dashboard asks for.
type pageView struct {
	name string // the same for all that ask the same
	once func(context.Context, access.Caller) (any, error)

	// watch begins to make the view again and again for a stream. All that ask the same and may see the same share the
	// name of the stream. end must follow. nil: once does it.
	watch func(c access.Caller, stream string) (again func(context.Context) (any, error), end func(), err error)
}

// viewOf is a view that package dashboard makes of a query.
func viewOf[Q, A any](s *Server, query Q, made func(context.Context, *service.Service, access.Caller, Q) (A, error)) pageView {
	return pageView{
		name: fmt.Sprintf("%#v", query),
		once: func(ctx context.Context, c access.Caller) (any, error) { return made(ctx, s.service, c, query) },
	}
}

// registerView registers a route whose answer is an A, or a stream of them for a caller that asks for one.
func registerView[I, A any](to *router, r route, read func(*params, *I) pageView) {
	if r.description == "" {
		r.description = viewDescription
	}
	r.codes, r.pool = append(r.codes, api.CodeClosed, api.CodeStopping), to.server.service.Pools.Views
	op := to.question(&r)
	op.Responses["200"] = &huma.Response{
		Description: "The view; for `Accept: text/event-stream` a stream of events, `view` with the view as it is now, and `problem` with why there is none.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: schemaOf[A](to)}, eventStreamType: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}
	huma.Register(to.api, op, func(_ context.Context, in *I) (*huma.StreamResponse, error) {
		var p params
		v := read(&p, in)
		if p.err != nil {
			return nil, ProblemOf(p.err)
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			to.server.view(w, r, v)
		}}, nil
	})
}

func (s *Server) registerViews(to *router) {
	registerView[overviewQuestion, api.OverviewAnswer](to, route{
		pattern: "GET /v1/views/overview", id: "view-overview", need: reads, summary: "View all keys", codes: []api.Code{api.CodeInvalidWindow, api.CodeNotHeld},
	}, func(p *params, q *overviewQuestion) pageView {
		query := dashboard.OverviewQuery{Window: p.window("window", q.Window), N: q.N, Prefix: q.Prefix}
		v := viewOf(s, query, dashboard.OverviewView)
		v.watch = func(c access.Caller, stream string) (func(context.Context) (any, error), func(), error) {
			return func(ctx context.Context) (any, error) { return s.tops.OverviewAgain(ctx, s.service, c, query, stream) }, func() {}, nil
		}
		return v
	})
	registerView[keyViewQuestion, api.KeyAnswer](to, route{
		pattern: "GET /v1/views/key", id: "view-key", need: readsKey, summary: "View a key",
		codes: []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeNotHeld},
	}, func(p *params, q *keyViewQuestion) pageView {
		return viewOf(s, dashboard.KeyQuery{Key: q.Key, Window: p.window("window", q.Window), With: q.With}, dashboard.KeyView)
	})
	registerView[limitsViewQuestion, api.LimitsView](to, route{
		pattern: "GET /v1/views/limits", id: "view-limits", need: reads, summary: "View the policies", codes: []api.Code{api.CodeInvalidWindow, api.CodeUnknownLimit, api.CodeNotHeld},
	}, func(p *params, q *limitsViewQuestion) pageView {
		return viewOf(s, dashboard.LimitsQuery{Window: p.window("window", q.Window), Name: q.Name}, dashboard.LimitsView)
	})
	registerView[siteQuestion, api.SiteView](to, route{
		pattern: sitePattern, id: "view-site", need: reads, summary: "View a web site", codes: []api.Code{api.CodeInvalidParameter, api.CodeNoHistory, api.CodeNotHeld},
	}, s.siteView)
	registerView[struct{}, api.NodesView](to, route{
		pattern: "GET /v1/views/nodes", id: "view-nodes", need: readsAll, summary: "View the nodes",
	}, func(*params, *struct{}) pageView { return viewOf(s, dashboard.NodesQuery{}, dashboard.NodesView) })
	registerView[logQuestion, api.LogView](to, route{
		pattern: "GET /v1/views/log", id: "view-log", need: reads, summary: "View hits and denials as they come", description: logDescription,
		codes: []api.Code{api.CodeInvalidWindow},
	}, func(p *params, q *logQuestion) pageView {
		within := p.window("for", q.For)
		if p.err == nil && (within <= 0 || within > longestLog) {
			p.err = fail(api.CodeInvalidWindow, "for", "for must be more than 0 and at most 10s")
		}
		return pageView{
			name: fmt.Sprintf("log %q", q.Prefix),
			once: func(ctx context.Context, c access.Caller) (any, error) { return s.liveLog(ctx, c, q.Prefix, within) },
			watch: func(c access.Caller, _ string) (func(context.Context) (any, error), func(), error) {
				tap, err := s.service.OpenLog(c, q.Prefix) // hits are noted for as long as it is watched
				if err != nil {
					return nil, nil, err
				}
				return func(context.Context) (any, error) { return s.service.LogView(tap), nil }, tap.Close, nil
			},
		}
	})
}

// liveLog is one answer of the live log, with what comes within a time.
func (s *Server) liveLog(ctx context.Context, c access.Caller, prefix string, within time.Duration) (any, error) {
	tap, err := s.service.OpenLog(c, prefix)
	if err != nil {
		return nil, err
	}
	defer tap.Close()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-timer.C:
		return s.service.LogView(tap), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.stopping.Done():
		return nil, dashboard.ErrClosed
	}
}

// view answers with a view, or streams it.
func (s *Server) view(w http.ResponseWriter, r *http.Request, v pageView) {
	c := clientOf(r)
	if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), eventStreamType) {
		s.stream(w, r, c, v)
		return
	}
	made, err := v.once(r.Context(), c)
	if err != nil {
		ProblemOf(err).Write(w)
		return
	}
	writeJSON(w, made)
}

// makingView bounds the time that a view takes to be made for a stream: unreachable nodes are waited for within it.
const makingView = 10 * time.Second

// stream sends a view as server-sent events until the client leaves, or may not look any more. The view is made once for all
// streams of the same identity and name, as long as the identity may do the same. A client that does not take an event in
// time is cut off; one that is slower than the view is made misses some.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c access.Caller, v pageView) {
	to := eventStream{w: w, control: http.NewResponseController(w), conn: ConnOf(r), rate: s.minRate()}
	for s.streamWhile(&to, r, c, v) {
	}
}

// errOtherScope ends the watch of a client that may do something else than when it began.
var errOtherScope = errors.New("the identity may do something else now")

// streamWhile streams while the client may do the same; again tells whether to begin again since that has changed.
func (s *Server) streamWhile(to *eventStream, r *http.Request, c access.Caller, v pageView) (again bool) {
	watch, leave, err := s.watch(c, v)
	if err != nil {
		to.end(err)
		return false
	}
	defer leave()
	for {
		to.conn.Waits(true)
		document, last, err := watch.Next(r.Context())
		to.conn.Waits(false)
		switch {
		case r.Context().Err() != nil:
			return false
		case errors.Is(err, errOtherScope):
			return true
		case err != nil && !to.began:
			to.end(err)
			return false
		case err != nil:
			err = to.problem(err)
		default:
			err = to.send("view", document)
		}
		if err != nil || last {
			return false
		}
	}
}

// watch begins to watch a view, as far as the client may now; leave ends it.
func (s *Server) watch(c access.Caller, v pageView) (watch *dashboard.Watch, leave func(), err error) {
	scope, err := s.service.Scope(c)
	if err != nil {
		return nil, nil, err
	}
	may := func() error {
		if now, err := s.service.Scope(c); err != nil || now == scope {
			return err
		}
		return errOtherScope
	}
	name := fmt.Sprintf("%q %q %s", c.Name(), scope, v.name)
	again, end := func(ctx context.Context) (any, error) { return v.once(ctx, c) }, func() {}
	if v.watch != nil {
		if again, end, err = v.watch(c, name); err != nil {
			return nil, nil, err
		}
	}
	watch, err = s.board.Watch(name, dashboard.Asker{
		Client: c.String(),
		May:    may,
		Ask: func(ctx context.Context) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, makingView)
			defer cancel()
			made, err := again(ctx)
			if changed := may(); changed != nil { // it may be made for what it may do now
				return nil, changed
			}
			if err != nil {
				return nil, err
			}
			return json.Marshal(made)
		},
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return watch, func() { watch.Close(); end() }, nil
}

// eventStreamType is the media type of server-sent events.
const eventStreamType = "text/event-stream"

// eventStream writes server-sent events.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	conn    *listener.Conn
	rate    MinRate
	began   bool
}

// send sends one event, whose data has no line breaks, and returns when the client has it.
func (e *eventStream) send(event string, data []byte) error {
	if !e.began {
		e.began = true
		h := e.w.Header()
		h.Set("Content-Type", eventStreamType)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // proxies are to pass each event on
		h.Set("X-Content-Type-Options", "nosniff")
		_ = e.control.SetReadDeadline(time.Time{}) // as in TimedBody: the request is there, the stream outlasts its deadline
	}
	to := NewTimedWriter(e.w, e.rate)
	defer to.NoDeadline()
	if _, err := fmt.Fprintf(to, "event: %s\ndata: %s\n\n", event, data); err != nil {
		return err
	}
	return e.control.Flush()
}

// problem sends what is wrong in place of a view.
func (e *eventStream) problem(err error) error {
	document, failed := json.Marshal(ProblemOf(err))
	if failed != nil {
		panic(failed) // strings and numbers only
	}
	return e.send("problem", document)
}

// end says why there is no view: with a status, while there is one to choose.
func (e *eventStream) end(err error) {
	if !e.began {
		ProblemOf(err).Write(e.w)
		return
	}
	_ = e.problem(err) // a client that left is not an error of ours
}
