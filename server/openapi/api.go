package openapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/problem"
)

const apiDescription = `Weir counts hits in rolling windows.

A **hit** is a key, a count n and a time. A **window** of w seconds at time t is the half-open interval (t-w, t].
A **count** is an answer: ` + "`lower <= true number <= upper`, with an `estimate` between them; `exact`" + ` says that they are equal.
It is of all hits that any node took until ` + "`as_of`" + `. While a node is ` + "`late`" + `, nobody knows how many of its hits are missing: ` + "`upper` is null and `exact`" + ` false.
So it is where a window reaches back beyond the retention, whose hits are refused or gone.
The reserved key ` + "`*`" + ` counts all hits but those of ` + "`limit:`" + ` keys, which are the decisions of limits.

Times are RFC 3339 or Unix seconds, with a fraction if need be; answers have Unix seconds.
Durations are written ` + "`90s`, `5m`, `24h`, `7d`, `1w`, `1h30m`" + ` or as plain seconds.
A server with a tokens file wants a token, ` + "`Authorization: Bearer weir_...`" + ` (or as the password of Basic), or a client certificate, but for health.
Every failure is a problem document (RFC 9457) with a stable ` + "`code`."

// API is the OpenAPI document of a server, and the questions that are registered by it.
type API struct {
	huma.API
	log *slog.Logger
}

// New returns an API of version that registers questions with mux, and logs to log what
// should not happen. It is built by hand because
// huma's defaults add links to schemas, and pages that load scripts from a CDN.
func New(mux humago.Mux, version string, log *slog.Logger) *API {
	hookErrors()
	info := &huma.Info{Title: "Weir", Version: version, Description: apiDescription}
	cfg := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI:  "3.1.0",
			Info:     info,
			Security: []map[string][]string{{}, {"token": {}}},
			Components: &huma.Components{
				Schemas: NewRegistry(),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {
					Type: "http", Scheme: "bearer", Description: "Of a server with a tokens file: weir_<id>_<secret>, made by `weir token create`.",
				}},
			},
		},
		Formats:                      huma.DefaultFormats, // JSON only
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
	cfg.AllowAdditionalPropertiesByDefault = true // answers may gain members
	return &API{humago.New(mux, cfg), log}
}

// logOf is the key in an operation's Metadata under which its API's log is
// found; it also marks the operations whose errors are ours to write.
const logOf = "weir log"

// hookErrors makes huma write our problem documents. The hook is a variable of
// huma's package, hence once, and every other API's errors pass through.
var hookErrors = sync.OnceFunc(func() {
	next := huma.NewErrorWithContext
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		log, ours := ctx.Operation().Metadata[logOf].(*slog.Logger)
		if !ours {
			return next(ctx, status, message, errs...)
		}
		if status >= http.StatusInternalServerError {
			log.ErrorContext(ctx.Context(), "unexpected error", "path", ctx.Operation().Path, "message", message, "errors", errs)
		}
		return problem.FromHuma(status, message, errs)
	}
})

// Ask registers one operation that answers a question, with the codes it can
// fail with.
func Ask[I, O any](doc *API, op huma.Operation, codes []api.Code, handler func(context.Context, *I) (*O, error)) {
	op.Metadata = map[string]any{logOf: doc.log}
	op.Middlewares = huma.Middlewares{checkParams}
	op.Responses = doc.Responses(append(codes, api.CodeInvalidParameter, api.CodeOverloaded)...)
	huma.Register(doc.API, op, handler)
}

// Responses documents each status that codes map to, with those of any request that asks for something.
func (doc *API) Responses(codes ...api.Code) map[string]*huma.Response {
	codes = append(slices.Clip(codes), api.CodeUnauthorized, api.CodeForbidden, api.CodeCeiling, api.CodeForbiddenOrigin)
	schema := SchemaFor[problem.Problem](doc)
	responses := map[string]*huma.Response{}
	for _, code := range codes {
		status := problem.StatusOf[code]
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
