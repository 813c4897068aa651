package decide

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/server/openapi"
)

const allowQueryDescription = "`POST /v1/allow` for the shell: `curl -sf 'localhost:8080/v1/allow?key=login:bob' && echo come in`. It takes what it asks for, as " +
	"HEAD does. Nothing of a body is read. Several keys are taken all or none."

// registerAllowQuery routes GET /v1/allow as registerAllow does its POST.
func (s *Routes) registerAllowQuery(doc *openapi.API, mux Mux) {
	mux.HandleFunc("GET /v1/allow", s.allowQuery)
	answer := map[string]*huma.MediaType{"application/json": {Schema: openapi.SchemaFor[api.AllowAnswer](doc)}}
	responses := doc.Responses(append(queryCodes(), api.CodeOverloaded, api.CodeClosed)...)
	responses["200"] = &huma.Response{Description: "The request may pass", Content: answer, Headers: limitFields(false)}
	over := responses["429"]
	over.Description = "A limit denies the request, and nothing was taken. Or, as a problem: `" + string(api.CodeCeiling) + "`"
	over.Content["application/json"], over.Headers = answer["application/json"], limitFields(true)
	key := keyParam("What is limited; 1 to 512 bytes. May be repeated, 8 times at most.", "login:bob")
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "allowQuery", Method: http.MethodGet, Path: "/v1/allow",
		Summary:     "Ask limits whether a request may pass, by a URL",
		Description: allowQueryDescription,
		Parameters: append([]*huma.Param{key, {
			Name: "peek", In: "query", Description: "Only say what would be decided.", Schema: &huma.Schema{Type: huma.TypeBoolean, Default: false},
		}, {
			Name: "cost", In: "query", Explode: new(true), Description: "What policies with a cost of this name take in place of n. May be repeated, 8 times at most.", Example: []string{"tokens=812"},
			Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, MaxItems: new(admit.MaxCosts)},
		}}, limitQueryParams()...),
		Responses: responses,
	})
}

// queryCodes are what may be wrong with limitParams, or with what they ask.
func queryCodes() []api.Code {
	return []api.Code{api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidLimit, api.CodeInvalidCount, api.CodeInvalidParameter, api.CodeUnknownParameter, api.CodeUnknownLimit}
}

// limitFields are the fields of a decision's answer.
func limitFields(denied bool) map[string]*huma.Param {
	text := &huma.Schema{Type: huma.TypeString}
	fields := map[string]*huma.Param{
		"RateLimit-Policy": {Description: "The limits that are enforced: `\"login\";q=5;w=60` is 5 per 60 s, `\"api\";q=1000;w=1;weir-burst=50` 1000 per second, 50 at once. Keys of one limit are told apart by pk, a hash of the key.", Schema: text},
		"RateLimit":        {Description: "Of each what there is until t seconds are over: until all is there again, or until it would not deny: `\"login\";r=3;t=12`.", Schema: text},
	}
	if denied {
		fields["Retry-After"] = &huma.Param{Description: "Whole seconds, rounded up.", Schema: &huma.Schema{Type: huma.TypeInteger}}
	}
	return fields
}

func keyParam(description, example string) *huma.Param {
	explode := true
	return &huma.Param{
		Name: "key", In: "query", Required: true, Explode: &explode, Description: description, Example: []string{example},
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, MaxItems: new(maxQueryKeys)},
	}
}

// limitQueryParams describe limitParams but the key.
func limitQueryParams() []*huma.Param {
	whole := func(least float64) *huma.Schema {
		return &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: new(float64(limit.MaxBurst))}
	}
	text := &huma.Schema{Type: huma.TypeString}
	params := []*huma.Param{
		{Name: "limit", Description: "The name of a policy: that one alone is asked. With `per`, how many in each: a limit of the request's own. Left out: all policies that are for the key.", Schema: text},
		{Name: "per", Description: "The period of a limit of the request's own, such as 1m.", Schema: text},
		{Name: "burst", Description: "How many of it at once. Default: the limit.", Schema: whole(1)},
		{Name: "algorithm", Description: "How it is kept.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"window", "fixed", "gcra"}, Default: "window"}},
		{Name: "name", Description: "By which what keys have used of it is kept. Default: inline/, the algorithm and the period.", Schema: text},
		{Name: "n", Description: "How many admissions; 0 asks only.", Schema: whole(0)},
	}
	for _, p := range params {
		p.In = "query"
	}
	return params
}
