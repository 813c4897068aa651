package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/views"
)

type overviewQuestion struct {
	Window string `query:"window" default:"5m" doc:"The window that keys are listed for, whole seconds from 1s to 1000000000s." example:"5m"`
	N      int    `query:"n" default:"15" minimum:"1" maximum:"100" doc:"How many keys."`
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
}

type keyViewQuestion struct {
	Key    string   `query:"key" required:"true" doc:"The key. * counts all hits but those of limit: keys." example:"url:/home"`
	Window string   `query:"window" default:"1h" doc:"The window of the lines, whole seconds." example:"1h"`
	With   []string `query:"with,explode" maxItems:"4" doc:"Another key, whose line is wanted beside it; may be repeated." example:"url:/cart"`
}

type limitsViewQuestion struct {
	Window string `query:"window" default:"5m" doc:"The window of decisions, whole seconds." example:"5m"`
	Name   string `query:"name" doc:"The policy whose fullest keys are listed." example:"login"`
}

const viewDescription = "What a page of the dashboard shows, in one answer. With `Accept: text/event-stream` it is sent again and again, about once a second, less often when it takes long to make: " +
	"it is made once for all who look at the same."

func (s *Server) registerViews(doc *openapi.API) {
	openapi.View[overviewQuestion, api.OverviewAnswer](doc, huma.Operation{
		OperationID: "view-overview", Method: http.MethodGet, Path: "/v1/views/overview", Summary: "View all keys", Description: viewDescription,
	}, []api.Code{api.CodeInvalidWindow, api.CodeNotHeld, api.CodeClosed, api.CodeStopping}, func(ctx huma.Context, q *overviewQuestion) {
		w, err := service.ParseWindow("window", q.Window)
		s.view(ctx, err, views.OverviewQuery{Window: w, N: q.N, Prefix: q.Prefix})
	})
	openapi.View[keyViewQuestion, api.KeyAnswer](doc, huma.Operation{
		OperationID: "view-key", Method: http.MethodGet, Path: "/v1/views/key", Summary: "View a key", Description: viewDescription,
	}, []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeNotHeld, api.CodeClosed, api.CodeStopping}, func(ctx huma.Context, q *keyViewQuestion) {
		w, err := service.ParseWindow("window", q.Window)
		s.view(ctx, err, views.KeyQuery{Key: q.Key, Window: w, With: q.With})
	})
	openapi.View[limitsViewQuestion, api.LimitsView](doc, huma.Operation{
		OperationID: "view-limits", Method: http.MethodGet, Path: "/v1/views/limits", Summary: "View the policies", Description: viewDescription,
	}, []api.Code{api.CodeInvalidWindow, api.CodeUnknownLimit, api.CodeNotHeld, api.CodeClosed, api.CodeStopping}, func(ctx huma.Context, q *limitsViewQuestion) {
		w, err := service.ParseWindow("window", q.Window)
		s.view(ctx, err, views.LimitsQuery{Window: w, Name: q.Name})
	})
	openapi.View[whatIfQuestion, api.WhatIfView](doc, huma.Operation{
		OperationID: "view-what-if", Method: http.MethodGet, Path: "/v1/views/what-if", Summary: "View what a limit would have denied", Description: viewDescription,
	}, []api.Code{api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeInvalidLimit, api.CodeUnknownLimit, api.CodeNotHeld, api.CodeClosed, api.CodeStopping}, func(ctx huma.Context, q *whatIfQuestion) {
		query, err := q.query()
		s.view(ctx, err, query)
	})
	openapi.View[struct{}, api.NodesView](doc, huma.Operation{
		OperationID: "view-nodes", Method: http.MethodGet, Path: "/v1/views/nodes", Summary: "View the nodes", Description: viewDescription,
	}, []api.Code{api.CodeClosed, api.CodeStopping}, func(ctx huma.Context, _ *struct{}) { s.view(ctx, nil, nodesQuery{}) })
	openapi.View[logQuestion, api.LogView](doc, huma.Operation{
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

func (q *whatIfQuestion) query() (views.WhatIfQuery, error) {
	of := views.WhatIfQuery{Key: q.Key, Policy: q.Policy, N: q.Limit}
	var err error
	if of.Per, err = service.ParseWindow("per", q.Per); err != nil {
		return of, err
	}
	if of.Window, err = service.ParseWindow("window", q.Window); err != nil {
		return of, err
	}
	switch {
	case (q.Key == "") == (q.Policy == ""):
		err = &service.Error{Code: api.CodeInvalidParameter, Field: "key", Message: "name a key, or a policy"}
	case of.Per < time.Second || of.Per > views.MaxWhatIf || of.Per%time.Second != 0:
		err = &service.Error{Code: api.CodeInvalidWindow, Field: "per", Message: "per must be whole seconds from 1s to 1d: hits are not known by less than a second"}
	case of.Window < time.Minute || of.Window > views.MaxWhatIf || of.Window%time.Second != 0:
		err = &service.Error{Code: api.CodeInvalidWindow, Field: "window", Message: "window must be whole seconds from 1m to 1d: for longer ones there is weir limits replay"}
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
	within, err := service.ParseWindow("for", q.For)
	if err == nil && (within <= 0 || within > longestLog) {
		err = &service.Error{Code: api.CodeInvalidWindow, Field: "for", Message: "for must be more than 0 and at most 10s"}
	}
	return logQuery{q.Prefix, within}, err
}

// liveLog is one answer of the live log.
func (s *Server) liveLog(ctx context.Context, c service.Caller, q logQuery) (any, error) {
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
		return nil, &service.Error{Code: api.CodeStopping, Message: "this server is stopping: use another"}
	}
}

// made is the view that a query asks for.
func (s *Server) made(ctx context.Context, c service.Caller, query any) (any, error) {
	switch q := query.(type) {
	case views.OverviewQuery:
		return views.Overview(ctx, s.service, c, q)
	case views.KeyQuery:
		return views.Key(ctx, s.service, c, q)
	case views.LimitsQuery:
		return views.Limits(ctx, s.service, c, q)
	case views.WhatIfQuery:
		return views.WhatIf(ctx, s.service, c, q)
	case nodesQuery:
		return views.Nodes(ctx, s.service, c)
	case logQuery:
		return s.liveLog(ctx, c, q)
	case *service.LogTap:
		return s.service.LogView(q), nil
	}
	panic(fmt.Sprintf("no view of %T", query))
}

// view answers with a view, or streams it.
func (s *Server) view(hctx huma.Context, wrong error, query any) {
	r, w := humago.Unwrap(hctx)
	c := clientOf(r)
	if wrong != nil {
		problem.Of(wrong).Write(w)
		return
	}
	if r.Method == http.MethodGet && wantsEvents(r) {
		s.stream(w, r, c, query)
		return
	}
	body, err := s.viewJSON(r.Context(), c, query)
	if err != nil {
		problem.Of(err).Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // a client that left is not an error of ours
}

// makingView bounds the time that a view takes to be made for a stream: nodes that are away are
// waited for within it.
const makingView = 10 * time.Second
