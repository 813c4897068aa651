package httpapi

import (
	"embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
)

// The OpenAPI document is written from the types of package api and of questions, so that it says what answers have.
// What huma finds wrong is answered by a Problem.

const apiDescription = `Weir counts hits in rolling windows.

A **hit** is a key, a count n and a time. A **window** of w seconds at time t is the half-open interval (t-w, t].
A **count** is an answer: ` + "`lower <= true number <= upper`" + `, with an ` + "`estimate`" + ` between them; ` + "`exact`" + ` says that they are equal.
It includes all hits that any node accepted until ` + "`as_of`" + `. While a node is ` + "`late`" + `, some of its hits may be missing: ` + "`upper`" + ` is null and ` + "`exact`" + ` false.
The same holds for a window that reaches back beyond the retention.
The reserved key ` + "`*`" + ` counts all hits except ` + "`limit:`" + ` keys, which are the decisions of limits.

Times are RFC 3339 or Unix seconds, with or without a fraction; answers have Unix seconds.
Durations are written ` + "`90s`" + `, ` + "`5m`" + `, ` + "`24h`" + `, ` + "`7d`" + `, ` + "`1w`" + `, ` + "`1h30m`" + ` or as plain seconds.
A server with a tokens file needs a token, ` + "`Authorization: Bearer weir_...`" + ` (or the password of Basic), or a client certificate, except for health.
Every error is a problem document (RFC 9457) with a stable ` + "`code`" + `.`

// newDocument is the configuration of huma with an OpenAPI document of version, in which nothing is described yet. It is built
// by hand because huma's defaults add links to schemas, and pages that load scripts from a CDN.
func newDocument(version string) huma.Config {
	hookErrors()
	cfg := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI:  "3.1.0",
			Info:     &huma.Info{Title: "Weir", Version: version, Description: apiDescription},
			Security: []map[string][]string{{}, {"token": {}}},
			Components: &huma.Components{
				Schemas: NewRegistry(),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {
					Type: "http", Scheme: "bearer", Description: "For a server with a tokens file: weir_<id>_<secret>, created by `weir token create`.",
				}},
			},
		},
		Formats:                      huma.DefaultFormats, // JSON only
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	}
	cfg.AllowAdditionalPropertiesByDefault = true // answers may gain members
	return cfg
}

// logOf is the key in an operation's Metadata under which its API's log is
// found; it also marks the operations whose errors are ours to write.
const logOf = "weir log"

// hookErrors makes huma write our problem documents. The hook is a variable of huma's package: it is set once, and
// passes other APIs' errors through.
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
		return FromHuma(ctx.Operation(), status, message, errs)
	}
})

// responses documents each status that codes map to, and the codes of any request that asks for something.
func (to *router) responses(codes ...api.Code) map[string]*huma.Response {
	codes = append(slices.Clip(codes), api.CodeUnauthorized, api.CodeForbidden, api.CodeCeiling, api.CodeForbiddenOrigin)
	schema := to.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "")
	responses := map[string]*huma.Response{}
	for _, code := range codes {
		status := StatusOf[code]
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

func fileContent(kind string) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{kind: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
}

// docsFiles is a page of our own, because the usual ones load their scripts from the internet.
//
//go:embed docs/index.html docs/page.js docs/page.css
var docsFiles embed.FS

// registerDocs serves the OpenAPI document and the page that shows it. It
// comes after all operations: the document is written once, here.
func (to *router) registerDocs() error {
	for _, name := range []string{"ErrorModel", "ErrorDetail"} {
		delete(to.api.OpenAPI().Components.Schemas.Map(), name) // huma's errors, which hookErrors replaces
	}
	document, err := json.Marshal(to.api.OpenAPI())
	if err != nil {
		return fmt.Errorf("write the OpenAPI document: %w", err)
	}
	to.handle("GET /openapi.json", anyRole, nil, serveBytes("application/openapi+json", document))
	for pattern, file := range map[string]struct{ name, contentType string }{
		"GET /docs":          {"docs/index.html", "text/html; charset=utf-8"},
		"GET /docs/page.js":  {"docs/page.js", "text/javascript; charset=utf-8"},
		"GET /docs/page.css": {"docs/page.css", "text/css; charset=utf-8"},
	} {
		content, err := docsFiles.ReadFile(file.name)
		if err != nil {
			return err
		}
		to.handle(pattern, anyRole, nil, serveBytes(file.contentType, content))
	}
	to.handle("GET /docs/{$}", anyRole, nil, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/docs", http.StatusFound) })
	return nil
}

func serveBytes(contentType string, content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(content) // a client that left is not an error of ours
	}
}

// mayBeEmpty are the parameters that mean something when they are empty: every key begins with an empty prefix.
var mayBeEmpty = []string{"prefix", "after"}

// checkParams refuses what huma ignores: a second value of a parameter that has one, and a value that is empty. An
// unset variable of a script must not pass for a default.
func checkParams(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		NewProblem(api.CodeInvalidParameter, "", "the query can't be decoded: "+err.Error()).Write(w)
		return
	}
	for _, p := range ctx.Operation().Parameters {
		values := query[p.Name]
		var bad *Problem
		switch {
		case p.In != "query":
		case p.Schema.Type != huma.TypeArray && len(values) > 1:
			bad = NewProblem(api.CodeInvalidParameter, p.Name, fmt.Sprintf("%s is given %d times: give it once", p.Name, len(values)))
		case !slices.Contains(values, "") || slices.Contains(mayBeEmpty, p.Name):
		case p.Name == "key":
			bad = NewProblem(api.CodeInvalidKey, "key", fmt.Sprintf("key is empty: a key has 1 to %d bytes", engine.MaxKeyBytes))
		default:
			bad = NewProblem(api.CodeInvalidParameter, p.Name, p.Name+" is empty: give it a value or leave it out")
		}
		if bad != nil {
			bad.Write(w)
			return
		}
	}
	next(ctx)
}

// The types of package api know no OpenAPI: these say in its document what their own spelling of JSON is.
var schemas = map[reflect.Type]reflect.Type{
	reflect.TypeFor[api.Time]():                         reflect.TypeFor[timeSchema](),
	reflect.TypeFor[api.Period]():                       reflect.TypeFor[periodSchema](),
	reflect.TypeFor[api.AllowLimit]():                   reflect.TypeFor[limitSchema](),
	reflect.TypeFor[api.Used]():                         reflect.TypeFor[usedSchema](),
	reflect.TypeFor[api.OneOrCounts[api.CountAnswer]](): reflect.TypeFor[oneOrCountsSchema[api.CountAnswer]](),
	reflect.TypeFor[api.OneOrCounts[api.RateAnswer]]():  reflect.TypeFor[oneOrCountsSchema[api.RateAnswer]](),
}

// NewRegistry returns the schemas of the OpenAPI document, which know the types of package api.
func NewRegistry() huma.Registry {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	for from, is := range schemas {
		registry.RegisterTypeAlias(from, is)
	}
	return registry
}

type timeSchema struct{}

// Schema implements huma.SchemaProvider.
func (timeSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber, Description: "Unix seconds.", Examples: []any{1769860800}}
}

type oneOrCountsSchema[T any] struct{}

// Schema implements huma.SchemaProvider.
func (oneOrCountsSchema[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		r.Schema(reflect.TypeFor[T](), true, ""),
		{
			Type: huma.TypeObject, Required: []string{"counts"},
			Properties: map[string]*huma.Schema{
				"counts": {Type: huma.TypeArray, Items: r.Schema(reflect.TypeFor[T](), true, "")},
			},
			Description: "If key or window is repeated: each key with each window.",
		},
	}}
}

type periodSchema struct{}

// Schema implements huma.SchemaProvider.
func (periodSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeNumber}},
		Description: "The period. It and per * burst / n are between 1ms and --max-inline-per (a day). Numbers are seconds.",
		Examples:    []any{"1m"},
	}
}

type limitSchema struct{}

// Schema implements huma.SchemaProvider.
func (limitSchema) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf: []*huma.Schema{
			{Type: huma.TypeString, Description: "The name of a policy."},
			r.Schema(reflect.TypeFor[api.InlineLimit](), true, ""),
		},
		Description: "The limit. Default: all policies that match the key.",
	}
}

type usedSchema struct{}

// Schema implements huma.SchemaProvider.
func (usedSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "One number for all limits, or an object with one number per cost; requests is for limits without a cost.",
		OneOf: []*huma.Schema{
			{Type: huma.TypeInteger, Minimum: new(0.0)},
			{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeInteger, Minimum: new(0.0)}, MinProperties: new(1), MaxProperties: new(admit.MaxCosts)},
		},
		Examples: []any{map[string]any{"tokens": 200, "requests": 1}},
	}
}
