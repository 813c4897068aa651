package server

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/weir-counter/weir/api"
)

const apiDescription = `Weir counts hits in rolling windows.

A **hit** is a key, a count n and a time. A **window** of w seconds at time t is the half-open interval (t-w, t].
A **count** is an answer: ` + "`lower <= true number <= upper`, with an `estimate` between them; `exact`" + ` says that they are equal.
It is of all hits that any node took until ` + "`as_of`" + `. While a node is ` + "`late`" + `, nobody knows how many of its hits are missing: ` + "`upper` is null and `exact`" + ` false.
So it is where a window reaches back beyond the retention, whose hits are refused or gone.
The reserved key ` + "`*`" + ` counts all hits but those of ` + "`limit:`" + ` keys, which are the decisions of limits.

Times are RFC 3339 or Unix seconds, with a fraction if need be; answers have Unix seconds.
Durations are written ` + "`90s`, `5m`, `24h`, `7d`, `1w`, `1h30m`" + ` or as plain seconds.
Every failure is a problem document (RFC 9457) with a stable ` + "`code`."

// newAPI returns the huma API for the questions. It is built by hand because
// huma's defaults add links to schemas, and pages that load scripts from a CDN.
func (s *Server) newAPI(mux humago.Mux) huma.API {
	hookErrors()
	info := &huma.Info{Title: "Weir", Version: s.cfg.Version, Description: apiDescription}
	cfg := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    info,
			Components: &huma.Components{
				Schemas: newRegistry(),
			},
		},
		Formats:                      huma.DefaultFormats, // JSON only
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
	cfg.AllowAdditionalPropertiesByDefault = true // answers may gain members
	return humago.New(mux, cfg)
}

// serverOf is the key in an operation's Metadata under which its Server is
// found; it also marks the operations whose errors are ours to write.
const serverOf = "weir server"

// hookErrors makes huma write our problem documents. The hook is a variable of
// huma's package, hence once, and every other API's errors pass through.
var hookErrors = sync.OnceFunc(func() {
	next := huma.NewErrorWithContext
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		s, ours := ctx.Operation().Metadata[serverOf].(*Server)
		if !ours {
			return next(ctx, status, message, errs...)
		}
		if status >= http.StatusInternalServerError {
			s.log.ErrorContext(ctx.Context(), "unexpected error", "path", ctx.Operation().Path, "message", message, "errors", errs)
		}
		return fromHuma(status, message, errs)
	}
})

// ask registers one operation that answers a question, with the codes it can
// fail with.
func ask[I, O any](s *Server, doc huma.API, op huma.Operation, codes []api.Code, handler func(context.Context, *I) (*O, error)) {
	op.Metadata = map[string]any{serverOf: s}
	op.Middlewares = huma.Middlewares{checkParams}
	op.Responses = problemResponses(doc, append(codes, api.CodeInvalidParameter, api.CodeOverloaded, api.CodeForbiddenOrigin)...)
	huma.Register(doc, op, handler)
}

// problemResponses documents each status that codes map to.
func problemResponses(doc huma.API, codes ...api.Code) map[string]*huma.Response {
	schema := schemaFor[problem](doc)
	responses := map[string]*huma.Response{}
	for _, code := range codes {
		status := statusOf[code]
		name := strconv.Itoa(status)
		r := responses[name]
		if r == nil {
			r = &huma.Response{
				Description: http.StatusText(status) + ":",
				Content:     map[string]*huma.MediaType{api.ProblemType: {Schema: schema}},
			}
			responses[name] = r
		}
		r.Description += " `" + string(code) + "`"
	}
	return responses
}
