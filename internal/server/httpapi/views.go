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
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/activity"
	"github.com/weir-counter/weir/internal/service/dashboard"
	"github.com/weir-counter/weir/internal/service/request"
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

const viewDescription = "What a page of the dashboard shows, in one answer. With `Accept: text/event-stream` it is sent again and again, about once a second, less often when it takes long to make: " +
	"it is made once for all who look at the same."

func (s *Server) registerViews(doc *API) {
	OpenAPIView[overviewQuestion, api.OverviewAnswer](doc, huma.Operation{
		OperationID: "view-overview", Method: http.MethodGet, Path: "/v1/views/overview", Summary: "View all keys", Description: viewDescription,
	}, []api.Code{api.CodeInvalidWindow, api.CodeNotHeld, api.CodeClosed, api.CodeStopping}, func(ctx huma.Context, q *overviewQuestion) {
		w, err := request.ParseWindow("window", q.Window)
		s.view(ctx, err, dashboard.OverviewQuery{Window: w, N: q.N, Prefix: q.Prefix})
	})
	OpenAPIView[keyViewQuestion, api.KeyAnswer](doc, huma.Operation{
		OperationID: "view-key", Method: http.MethodGet, Path: "/v1/views/key", Summary: "View a key", Description: viewDescription,
	}, []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeNotHeld, api.CodeClosed, api.CodeStopping}, func(ctx huma.Context, q *keyViewQuestion) {
		w, err := request.ParseWindow("window", q.Window)
		s.view(ctx, err, dashboard.KeyQuery{Key: q.Key, Window: w, With: q.With})
	})
	OpenAPIView[limitsViewQuestion, api.LimitsView](doc, huma.Operation{
		OperationID: "view-limits", Method: http.MethodGet, Path: "/v1/views/limits", Summary: "View the policies", Description: viewDescription,
	}, []api.Code{api.CodeInvalidWindow, api.CodeUnknownLimit, api.CodeNotHeld, api.CodeClosed, api.CodeStopping}, func(ctx huma.Context, q *limitsViewQuestion) {
		w, err := request.ParseWindow("window", q.Window)
		s.view(ctx, err, dashboard.LimitsQuery{Window: w, Name: q.Name})
	})
	OpenAPIView[whatIfQuestion, api.WhatIfView](doc, huma.Operation{
		OperationID: "view-what-if", Method: http.MethodGet, Path: "/v1/views/what-if", Summary: "View what a limit would have denied", Description: viewDescription,
	}, []api.Code{api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeInvalidLimit, api.CodeUnknownLimit, api.CodeNotHeld, api.CodeClosed, api.CodeStopping}, func(ctx huma.Context, q *whatIfQuestion) {
		query, err := q.query()
		s.view(ctx, err, query)
	})
	OpenAPIView[struct{}, api.NodesView](doc, huma.Operation{
		OperationID: "view-nodes", Method: http.MethodGet, Path: "/v1/views/nodes", Summary: "View the nodes", Description: viewDescription,
	}, []api.Code{api.CodeClosed, api.CodeStopping}, func(ctx huma.Context, _ *struct{}) { s.view(ctx, nil, nodesQuery{}) })
	OpenAPIView[logQuestion, api.LogView](doc, huma.Operation{
		OperationID: "view-log", Method: http.MethodGet, Path: "/v1/views/log", Summary: "View hits and denials as they come", Description: logDescription,
	}, []api.Code{api.CodeInvalidWindow, api.CodeStopping}, func(ctx huma.Context, q *logQuestion) {
		query, err := q.query()
		s.view(ctx, err, query)
	})
}

type whatIfQuestion struct {
	Key    string `query:"key" doc:"What the limit would have denied of this key." example:"url:/home"`
	Policy string `query:"policy" doc:"In place of key: of all keys that this policy is for, of which the busiest are decided." example:"login"`
	Limit  uint64 `query:"limit" required:"true" doc:"How many may pass in any interval of length per." example:"100"`
	Per    string `query:"per" default:"1m" doc:"Whole seconds, 1d at most." example:"1m"`
	Window string `query:"window" default:"6h" doc:"Of which hits, up to now; 1m to 1d." example:"6h"`
}

func (q *whatIfQuestion) query() (dashboard.WhatIfQuery, error) {
	of := dashboard.WhatIfQuery{Key: q.Key, Policy: q.Policy, N: q.Limit}
	var err error
	if of.Per, err = request.ParseWindow("per", q.Per); err != nil {
		return of, err
	}
	if of.Window, err = request.ParseWindow("window", q.Window); err != nil {
		return of, err
	}
	switch {
	case (q.Key == "") == (q.Policy == ""):
		err = &api.Error{Code: api.CodeInvalidParameter, Field: "key", Message: "name a key, or a policy"}
	case of.Per < time.Second || of.Per > dashboard.MaxWhatIf || of.Per%time.Second != 0:
		err = &api.Error{Code: api.CodeInvalidWindow, Field: "per", Message: "per must be whole seconds from 1s to 1d: hits are not known by less than a second"}
	case of.Window < time.Minute || of.Window > dashboard.MaxWhatIf || of.Window%time.Second != 0:
		err = &api.Error{Code: api.CodeInvalidWindow, Field: "window", Message: "window must be whole seconds from 1m to 1d: for longer ones there is weir limits replay"}
	}
	return of, err
}

type nodesQuery struct{}

type logQuestion struct {
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	For    string `query:"for" default:"1s" doc:"How long an answer that is no stream waits for what comes, 10s at most." example:"1s"`
}

const logDescription = "Hits and denials as this node takes them: of few all, of many a sample, and how large a share it is. Hits and denials are noted only while a client asks: one answer has those after the question. " +
	"With `Accept: text/event-stream` it is sent again and again, about once a second."

// logQuery asks for the live log of keys that begin with prefix.
type logQuery struct {
	prefix string
	within time.Duration // that an answer waits; 0: of a stream
}

// longestLog is the longest time that an answer waits.
const longestLog = 10 * time.Second

func (q *logQuestion) query() (logQuery, error) {
	within, err := request.ParseWindow("for", q.For)
	if err == nil && (within <= 0 || within > longestLog) {
		err = &api.Error{Code: api.CodeInvalidWindow, Field: "for", Message: "for must be more than 0 and at most 10s"}
	}
	return logQuery{q.Prefix, within}, err
}

// liveLog is one answer of the live log.
func (s *Server) liveLog(ctx context.Context, c access.Caller, q logQuery) (any, error) {
	tap, err := s.service.OpenLog(c, q.prefix)
	if err != nil {
		return nil, err
	}
	defer tap.Close()
	timer := time.NewTimer(q.within)
	defer timer.Stop()
	select {
	case <-timer.C:
		return s.service.LogView(tap), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.stopping.Done():
		return nil, &api.Error{Code: api.CodeStopping, Message: "this server is stopping: use another"}
	}
}

// made is the view that a query asks for.
func (s *Server) made(ctx context.Context, c access.Caller, query any) (any, error) {
	switch q := query.(type) {
	case dashboard.OverviewQuery:
		return dashboard.OverviewView(ctx, s.service, c, q)
	case dashboard.KeyQuery:
		return dashboard.KeyView(ctx, s.service, c, q)
	case dashboard.LimitsQuery:
		return dashboard.LimitsView(ctx, s.service, c, q)
	case dashboard.WhatIfQuery:
		return dashboard.WhatIfView(ctx, s.service, c, q)
	case nodesQuery:
		return dashboard.NodesView(ctx, s.service, c)
	case logQuery:
		return s.liveLog(ctx, c, q)
	case *activity.Tap:
		return s.service.LogView(q), nil
	}
	panic(fmt.Sprintf("no view of %T", query))
}

// view answers with a view, or streams it.
func (s *Server) view(hctx huma.Context, wrong error, query any) {
	r, w := humago.Unwrap(hctx)
	c := clientOf(r)
	if wrong != nil {
		ProblemOf(wrong).Write(w)
		return
	}
	if r.Method == http.MethodGet && wantsEvents(r) {
		s.stream(w, r, c, query)
		return
	}
	body, err := s.viewJSON(r.Context(), c, query)
	if err != nil {
		ProblemOf(err).Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // a client that left is not an error of ours
}

// makingView bounds the time that a view takes to be made for a stream: nodes that are away are
// waited for within it.
const makingView = 10 * time.Second

func wantsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), EventStream)
}

func (s *Server) viewJSON(ctx context.Context, c access.Caller, query any) ([]byte, error) {
	view, err := s.made(ctx, c, query)
	if err != nil {
		return nil, err
	}
	return json.Marshal(view)
}

// viewAgain is viewJSON for a stream of that name.
func (s *Server) viewAgain(ctx context.Context, c access.Caller, query any, name string) ([]byte, error) {
	q, is := query.(dashboard.OverviewQuery)
	if !is {
		return s.viewJSON(ctx, c, query)
	}
	view, err := s.tops.OverviewAgain(ctx, s.service, c, q, name)
	if err != nil {
		return nil, err
	}
	return json.Marshal(view)
}

// stream sends a view as server-sent events until the client leaves, or may not look any more. The view is
// made once for all streams of the same identity, while it may do the same, and query. A client that does not take an event
// with a pace is cut off; one that is slower than the view is made misses some.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c access.Caller, query any) {
	to := eventStream{w: w, control: http.NewResponseController(w), conn: PaceOf(r), pace: s.pace()}
	for s.streamWhile(&to, r, c, query) {
	}
}

// errOtherScope ends the watch of a client that may do something else than when it began.
var errOtherScope = errors.New("the identity may do something else now")

// streamWhile streams while the client may do the same; again tells whether to begin again since that has changed.
func (s *Server) streamWhile(to *eventStream, r *http.Request, c access.Caller, query any) (again bool) {
	watch, leave, err := s.watch(c, query)
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

// watch begins to watch what the client looks at, as far as it may now; leave ends it.
func (s *Server) watch(c access.Caller, query any) (watch *dashboard.Watch, leave func(), err error) {
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
	log, isLog := query.(logQuery)
	if isLog {
		query = logQuery{prefix: log.prefix}
	}
	name := fmt.Sprintf("%q %q %#v", c.Name(), scope, query)
	end := func() {}
	if isLog { // hits are noted for as long as it is watched
		tap, err := s.service.OpenLog(c, log.prefix)
		if err != nil {
			return nil, nil, err
		}
		query, end = tap, tap.Close
	}
	watch, err = s.board.Watch(name, dashboard.Asker{
		Client: c.String(),
		May:    may,
		Ask: func(ctx context.Context) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, makingView)
			defer cancel()
			document, err := s.viewAgain(ctx, c, query, name)
			if changed := may(); changed != nil { // it may be made for what it may do now
				return nil, changed
			}
			return document, err
		},
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return watch, func() { watch.Close(); end() }, nil
}

// boardProblem is the problem of an error of a board, or of what it computes.
func boardProblem(err error) *Problem {
	switch {
	case errors.Is(err, dashboard.ErrFull):
		return NewProblem(api.CodeOverloaded, "", fmt.Sprintf("%d different views are open: close some, or look at one that is open", dashboard.MaxTopics))
	case errors.Is(err, dashboard.ErrShare):
		return NewProblem(api.CodeOverloaded, "", fmt.Sprintf("you look at %d different views, your share: close some, so that others can look too", dashboard.MaxOwn))
	case errors.Is(err, dashboard.ErrClosed):
		return NewProblem(api.CodeStopping, "", "this server is stopping: use another")
	}
	return ProblemOf(err)
}

// eventStream writes server-sent events.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	conn    *listener.Conn
	pace    Pace
	began   bool
}

// send sends one event, whose data has no line breaks, and returns when the client has it.
func (e *eventStream) send(event string, data []byte) error {
	if !e.began {
		e.began = true
		h := e.w.Header()
		h.Set("Content-Type", EventStream)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // proxies are to pass each event on
		h.Set("X-Content-Type-Options", "nosniff")
		_ = e.control.SetReadDeadline(time.Time{}) // as in PacedBody: the request is there, the stream outlasts its deadline
	}
	to := NewPacedWriter(e.w, e.pace)
	defer to.NoDeadline()
	if _, err := fmt.Fprintf(to, "event: %s\ndata: %s\n\n", event, data); err != nil {
		return err
	}
	return e.control.Flush()
}

// problem sends what is wrong in place of a view.
func (e *eventStream) problem(err error) error {
	document, failed := json.Marshal(boardProblem(err))
	if failed != nil {
		panic(failed) // strings and numbers only
	}
	return e.send("problem", document)
}

// end says why there is no view: with a status, while there is one to choose.
func (e *eventStream) end(err error) {
	if !e.began {
		boardProblem(err).Write(e.w)
		return
	}
	_ = e.problem(err) // a client that left is not an error of ours
}
