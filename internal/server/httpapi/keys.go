package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/history/calendar"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/internal/service/queries"
	servicerequest "github.com/weir-counter/weir/internal/service/request"
)

type keysQuestion struct {
	Prefix string `query:"prefix" doc:"Only keys that begin with this." example:"url:"`
	After  string `query:"after" doc:"Only keys that sort after this: next of the answer before."`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"5000" doc:"How many keys to list."`
	FreshParam
	ScopeParam
}

type keysOutput struct{ Body api.KeysAnswer }

type deleteQuestion struct {
	Key string `path:"key" doc:"The key; its slashes may be raw or percent-encoded, but ?, # and % must be percent-encoded." example:"url:/home"`
}

type deletePrefixQuestion struct {
	Prefix string `query:"prefix" required:"true" doc:"All keys that begin with this." example:"user:42:"`
	After  string `query:"after" doc:"Only keys that sort after this: next of the answer before."`
	Limits bool   `query:"limits" default:"false" doc:"Also forget what all keys that begin so have used of all limits, with their grants and bans. The request without after does it."`
}

type deletedOutput struct{ Body api.DeletedAnswer }

func (s *Server) registerKeys(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: "/v1/keys",
		Summary:     "List keys",
		Description: "Keys that begin with `limit:` are listed only when `prefix` does.",
	}, []api.Code{api.CodeInvalidRange, api.CodeNotHeld, api.CodeNotFresh, api.CodeClosed},
		func(ctx context.Context, q *keysQuestion) (*keysOutput, error) {
			fresh, err := servicerequest.ParseFresh(q.Fresh)
			if err != nil {
				return nil, ProblemOrNil(err)
			}
			scope, err := servicerequest.ScopeOf(q.Scope)
			if err != nil {
				return nil, ProblemOrNil(err)
			}
			answer, err := s.service.Keys(ctx, callerOf(ctx), queries.KeysQuery{Prefix: q.Prefix, After: q.After, Limit: q.Limit, Fresh: fresh, Scope: scope})
			return &keysOutput{answer}, ProblemOrNil(err)
		})
	AskView(doc, huma.Operation{
		OperationID: "delete-keys", Method: http.MethodDelete, Path: "/v1/keys",
		Summary:     "Delete all keys that begin with a prefix, and their hits",
		Description: "With their history, also of keys that only history knows any more. At most 1000 keys a request: go on with `after` while there is a `next`. What keys have used of limits stays, unless `limits=true`.",
	}, []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeNotHeld, api.CodeNoHistory, api.CodeOverloaded, api.CodeClosed},
		func(ctx context.Context, q *deletePrefixQuestion) (*deletedOutput, error) {
			answer, err := s.service.DeletePrefix(ctx, callerOf(ctx), q.Prefix, q.After, q.Limits)
			return &deletedOutput{answer}, ProblemOrNil(err)
		})
	AskView(doc, huma.Operation{
		OperationID: "delete-key", Method: http.MethodDelete, Path: "/v1/keys/{key}",
		Summary:       "Delete a key and its hits",
		Description:   "With its history. The hits stay counted under `*`. Like a hit that is not durable, the deletion may be lost in a crash within one flush interval.",
		DefaultStatus: http.StatusNoContent,
	}, []api.Code{api.CodeInvalidKey, api.CodeReservedKey, api.CodeUnknownKey, api.CodeNotHeld, api.CodeNoHistory, api.CodeClosed},
		func(ctx context.Context, q *deleteQuestion) (*struct{}, error) {
			return nil, ProblemOrNil(s.service.Delete(ctx, callerOf(ctx), q.Key))
		})
}

const exportDescription = `The hits of keys in each day of UTC, or each hour, as history has them: the columns key, start, hits and doubt (the true number is
hits to hits + doubt). It is streamed, and an answer that is cut short is dropped, not ended. The header field
Weir-Missing has the times of which hits may be missing, if there are any. Who does not take it at 64 KiB a second loses it.`

// registerExport routes GET /v1/export around huma, which would hold the answer in memory.
func (s *Server) registerExport(doc *API, mux *router) {
	mux.HandleFunc("GET /v1/export", s.export)
	responses := doc.Responses(api.CodeInvalidParameter, api.CodeInvalidTime, api.CodeInvalidRange, api.CodeNoHistory)
	content := map[string]*huma.MediaType{}
	for _, media := range calendar.ExportFormats {
		content[media] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	}
	responses["200"] = &huma.Response{Description: "The rows", Content: content}
	text := func(name, description string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: description, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "export", Method: http.MethodGet, Path: "/v1/export",
		Summary: "Export history", Description: exportDescription,
		Parameters: []*huma.Param{
			text("unit", "day (the default) or hour."), text("format", "csv (the default) or parquet."), text("prefix", "Only keys that begin with this."),
			text("from", "The first day, by a moment in it; -365d is a duration before now. Default: the beginning."), text("to", "The last day, by a moment after it begins. Default: now."),
		},
		Responses: responses,
	})
}

// export streams. A failure after the first byte can't be told any more: the connection is
// dropped, so that the client sees it.
func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	q, err := s.exportQuery(r)
	if err != nil {
		ProblemOf(err).Write(w)
		return
	}
	q.Missing = func(times string) { w.Header().Set("Weir-Missing", times) }
	to := &exportStream{w: s.paced(w), format: q.Format}
	err = s.service.Export(r.Context(), clientOf(r), q, to)
	switch {
	case err == nil:
	case to.began:
		panic(http.ErrAbortHandler)
	default:
		ProblemOf(err).Write(w)
	}
}

func (s *Server) exportQuery(r *http.Request) (q queries.ExportQuery, err error) {
	values := r.URL.Query()
	q = queries.ExportQuery{Prefix: values.Get("prefix"), Unit: calendar.Day, Format: "csv"}
	for name := range values {
		switch name {
		case "unit", "format", "prefix", "from", "to":
		default:
			return q, &api.Error{Code: api.CodeUnknownParameter, Field: servicerequest.Clip(name), Message: "there are unit, format, prefix, from and to"}
		}
	}
	if unit := values.Get("unit"); unit != "" {
		q.Unit = calendar.Unit(unit)
	}
	if format := values.Get("format"); format != "" {
		q.Format = format
	}
	if q.From, err = s.agoParam("from", values.Get("from")); err != nil {
		return q, err
	}
	q.To, err = s.agoParam("to", values.Get("to"))
	return q, err
}

// exportStream has no deadline but the pace.
type exportStream struct {
	w      *PacedWriter
	format string
	began  bool
}

func (e *exportStream) Write(piece []byte) (int, error) {
	if !e.began {
		e.began = true
		e.w.Header().Set("Content-Type", calendar.ExportFormats[e.format])
		e.w.Header().Set("Content-Disposition", `attachment; filename="weir-history.`+e.format+`"`)
	}
	return e.w.Write(piece)
}

type whyQuestion struct {
	ID string `path:"id" maxLength:"128" doc:"The ID of a denial: denial in the answer, or the header field Weir-Denial." example:"4v8k0zq2m1b7c"`
}

type whyOutput struct{ Body api.DenialAnswer }

const whyDescription = `The limits that denied it, the admissions that filled them, with their times as far as the algorithm knows them, and the smallest limit that would have let it
pass. Each node keeps the newest 8192 denials that it answered with, 64 of them for each 128th of all keys, so that one key that is denied all the time pushes out few others'. What a
restart forgets, and what others pushed out, is told apart from what never was. In a cluster an ID begins with the name of the node to ask.`

type whoQuestion struct {
	Window string `query:"window" default:"1m" doc:"The keys were denied within it, whole seconds from 1s to 5m." example:"1m"`
	Prefix string `query:"prefix" doc:"Only counted keys that begin with it." example:"login:"`
	Limit  string `query:"limit" maxLength:"64" doc:"Only of this limit; default all, also those that requests bring along." example:"login"`
	N      int    `query:"n" default:"20" minimum:"1" maximum:"4096" doc:"How many keys to list."`
}

type whoOutput struct{ Body api.WhoAnswer }

func (s *Server) registerDenials(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "why-denied", Method: http.MethodGet, Path: "/v1/denials/{id}",
		Summary: "Say why a request was denied", Description: whyDescription,
	}, []api.Code{api.CodeUnknownDenial, api.CodeDenialGone, api.CodeOtherNode, api.CodeUnknownParameter}, func(ctx context.Context, q *whyQuestion) (*whyOutput, error) {
		answer, err := s.service.Why(callerOf(ctx), q.ID)
		return &whyOutput{answer}, ProblemOrNil(err)
	})
	AskView(doc, huma.Operation{
		OperationID: "limited-keys", Method: http.MethodGet, Path: "/v1/limits/who",
		Summary:     "List who is limited now, most denied first",
		Description: "Keys that this server denied within the window, for each limit. It knows 4096 at once: those that are denied seldom leave first.",
	}, []api.Code{api.CodeInvalidWindow, api.CodeUnknownParameter}, func(ctx context.Context, q *whoQuestion) (*whoOutput, error) {
		w, err := servicerequest.ParseWindow("window", q.Window)
		if err != nil {
			return nil, ProblemOf(err)
		}
		answer, err := s.service.Who(callerOf(ctx), limits.WhoQuery{Window: w, N: q.N, Prefix: q.Prefix, Limit: q.Limit})
		return &whoOutput{answer}, ProblemOrNil(err)
	})
}
