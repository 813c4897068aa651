package httpapi

import (
	"cmp"
	"context"
	"fmt"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/dashboard"
	"github.com/weir-counter/weir/internal/service/request"
)

type overviewQuestion struct {
	Window string `query:"window" default:"5m" doc:"The window that keys are listed for, whole seconds from 1s to 1000000000s." example:"5m"`
	N      int    `query:"n" default:"15" minimum:"1" maximum:"100" doc:"How many keys."`
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	Groups int    `query:"groups" default:"0" minimum:"0" maximum:"12" doc:"List n keys of each of so many groups: of those that are alike up to the first colon. They are made of the 1,000 keys with most hits. 0: n keys of all."`
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
}

const viewDescription = "A page of the dashboard in one answer. Equal requests share it: it is computed at most once a second, or less often if it is expensive."

const logDescription = "Hits and denials of this node: all if there are few, otherwise a sample and its share. They are recorded while a client asks at least every ten seconds: the first answer has none."

// viewName names a view for all that ask the same and may see the same.
func (s *Server) viewName(c access.Caller, question any) (string, error) {
	scope, err := s.service.Scope(c)
	return fmt.Sprintf("%q %q %#v", c.Name(), scope, question), err
}

// serveView registers a question whose answer is made once for all that ask the same.
func serveView[I, A any](to *router, r route, made func(context.Context, access.Caller, *I) (A, error)) {
	s := to.server
	r.description = cmp.Or(r.description, viewDescription)
	serve(to, r, func(ctx context.Context, c access.Caller, q *I) (none A, err error) {
		name, err := s.viewName(c, *q)
		if err != nil {
			return none, err
		}
		return dashboard.Shared(ctx, &s.views, name, func(ctx context.Context) (A, error) { return made(ctx, c, q) })
	})
}

func (s *Server) registerViews(to *router) {
	serve(to, route{
		pattern: "GET /v1/views/overview", id: "view-overview", need: reads, codes: []api.Code{api.CodeInvalidWindow, api.CodeNotHeld, api.CodeClosed},
		summary: "View all keys", description: viewDescription,
	}, s.overview)
	serve(to, route{
		pattern: sitePattern, id: "view-site", need: reads, codes: []api.Code{api.CodeNoHistory, api.CodeNotHeld, api.CodeClosed},
		summary: "View a web site", description: viewDescription,
	}, s.siteView)
	serveView(to, route{
		pattern: "GET /v1/views/key", id: "view-key", need: readsKey, summary: "View a key",
		codes: []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidWindow, api.CodeNotHeld, api.CodeClosed},
	}, func(ctx context.Context, c access.Caller, q *keyViewQuestion) (none api.KeyAnswer, err error) {
		w, err := request.ParseWindow("window", q.Window)
		if err != nil {
			return none, err
		}
		return dashboard.KeyView(ctx, s.service, c, dashboard.KeyQuery{Key: q.Key, Window: w, With: q.With})
	})
	serveView(to, route{
		pattern: "GET /v1/views/limits", id: "view-limits", need: reads, summary: "View the policies", codes: []api.Code{api.CodeInvalidWindow, api.CodeUnknownLimit, api.CodeNotHeld, api.CodeClosed},
	}, func(ctx context.Context, c access.Caller, q *limitsViewQuestion) (none api.LimitsView, err error) {
		w, err := request.ParseWindow("window", q.Window)
		if err != nil {
			return none, err
		}
		return dashboard.LimitsView(ctx, s.service, c, dashboard.LimitsQuery{Window: w, Name: q.Name})
	})
	serveView(to, route{
		pattern: "GET /v1/views/nodes", id: "view-nodes", need: readsAll, summary: "View the nodes", codes: []api.Code{api.CodeClosed},
	}, func(ctx context.Context, c access.Caller, _ *struct{}) (api.NodesView, error) {
		return dashboard.NodesView(ctx, s.service, c)
	})
	serveView(to, route{
		pattern: "GET /v1/views/log", id: "view-log", need: reads, summary: "View new hits and denials", description: logDescription, codes: []api.Code{api.CodeOverloaded},
	}, func(_ context.Context, c access.Caller, q *logQuestion) (api.LogView, error) {
		return s.service.LogView(c, q.Prefix)
	})
}

func (s *Server) overview(ctx context.Context, c access.Caller, q *overviewQuestion) (none api.OverviewAnswer, err error) {
	name, err := s.viewName(c, *q)
	if err != nil {
		return none, err
	}
	query := dashboard.OverviewQuery{N: q.N, Prefix: q.Prefix, Groups: q.Groups}
	if query.Window, err = request.ParseWindow("window", q.Window); err != nil {
		return none, err
	}
	keys, err := dashboard.Shared(ctx, &s.lists, name, func(ctx context.Context) ([]string, error) { return query.Keys(ctx, s.service, c) })
	if err != nil {
		return none, err
	}
	return dashboard.Shared(ctx, &s.views, name, func(ctx context.Context) (api.OverviewAnswer, error) {
		return dashboard.OverviewView(ctx, s.service, c, query, keys)
	})
}
