package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
)

// limitParams are the parameters by which a URL says what is asked for a key.
var limitParams = []string{"key", "limit", "per", "burst", "algorithm", "name", "n"}

// maxQueryKeys bounds the keys of a URL.
const maxQueryKeys = 8

// allowQuery is GET /v1/allow: the decision of a key for the shell.
func (s *DecisionRoutes) allowQuery(w http.ResponseWriter, r *http.Request) {
	withoutBody(w, r)
	a := s.states.Get().(*allowing)
	defer s.states.Put(a)
	if err := s.decideQuery(a, r); err != nil {
		ProblemOf(err).Write(w)
		return
	}
	s.answerAllow(a, w, r)
}

// withoutBody has nobody wait for a body: it asks nothing. Nor is the answer for another time.
func withoutBody(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close") // else net/http reads it, before the answer leaves
	}
}

func (s *DecisionRoutes) decideQuery(a *allowing, r *http.Request) error {
	q, err := queryOf(r, append([]string{"peek", "cost"}, limitParams...))
	if err != nil {
		return err
	}
	peek := false
	if text := q.Get("peek"); q.Has("peek") {
		if peek, err = strconv.ParseBool(text); err != nil {
			return NewProblem(api.CodeInvalidParameter, "peek", "peek must be true or false")
		}
	}
	requests, err := limitOf(q)
	if err != nil {
		return err
	}
	costs, err := costsOf(q["cost"])
	if err != nil {
		return err
	}
	for i := range requests {
		requests[i].Costs = costs
		if bad := request.ParseKey(requests[i].Key); bad != nil {
			return NewProblem(bad.Code, "key", bad.Message)
		}
	}
	return s.askLimits(a, r, requests, peek)
}

// queryOf reads the parameters of a URL, each of which may be there once, keys and costs several times.
func queryOf(r *http.Request, known []string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, NewProblem(api.CodeInvalidParameter, "", "the query is not one: "+request.Clip(err.Error()))
	}
	for name, values := range q {
		switch {
		case !slices.Contains(known, name):
			return nil, NewProblem(api.CodeUnknownParameter, request.Clip(name), request.Clip(name)+": unknown query parameter")
		case slices.Contains(values, ""):
			return nil, NewProblem(api.CodeInvalidParameter, name, name+" is empty: give it a value or leave it out")
		case len(values) > 1 && name != "key" && name != "cost":
			return nil, NewProblem(api.CodeInvalidParameter, name, fmt.Sprintf("%s is given %d times: give it once", name, len(values)))
		}
	}
	return q, nil
}

// limitOf reads what is asked: for each key a request, all with the same limit.
func limitOf(q url.Values) ([]admit.Request, error) {
	keys := q["key"]
	switch {
	case len(keys) == 0:
		return nil, NewProblem(api.CodeMissingKey, "key", "key is missing: name the key that is limited")
	case len(keys) > maxQueryKeys:
		return nil, NewProblem(api.CodeInvalidCount, "key", fmt.Sprintf("there are %d keys: at most %d in a URL, and %d by POST /v1/allow", len(keys), maxQueryKeys, engine.MaxChecks))
	}
	one := admit.Request{N: 1, Limit: q.Get("limit")}
	var err error
	if q.Has("n") {
		if one.N, err = numberOf(q, "n", 0); err != nil {
			return nil, err
		}
	}
	if q.Has("per") {
		if one.Inline, err = inlineOf(q); err != nil {
			return nil, err
		}
		one.Limit = q.Get("name")
	} else {
		for _, name := range []string{"burst", "algorithm", "name"} {
			if q.Has(name) {
				return nil, NewProblem(api.CodeInvalidLimit, name, name+" belongs to a limit of the request's own: give limit and per too, such as limit=100&per=1m")
			}
		}
	}
	requests := make([]admit.Request, len(keys))
	for i, key := range keys {
		requests[i] = one
		requests[i].Key = key
	}
	return requests, nil
}

// costsOf reads costs by their names, such as tokens=812.
func costsOf(values []string) ([]admit.Cost, error) {
	if len(values) > admit.MaxCosts {
		return nil, NewProblem(api.CodeInvalidCount, "cost", fmt.Sprintf("there are %d costs: at most %d", len(values), admit.MaxCosts))
	}
	var costs []admit.Cost
	for _, text := range values {
		name, number, _ := strings.Cut(text, "=")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || name == "" || n > limit.MaxBurst {
			return nil, NewProblem(api.CodeInvalidCount, "cost", fmt.Sprintf("cost must be a name and a whole number from 0 to %d, such as cost=tokens=812", uint64(limit.MaxBurst)))
		}
		if slices.ContainsFunc(costs, func(c admit.Cost) bool { return c.Field == name }) {
			return nil, NewProblem(api.CodeInvalidCount, "cost", "cost "+request.Clip(name)+" is given twice: give it once")
		}
		costs = append(costs, admit.Cost{Field: name, N: n})
	}
	return costs, nil
}

// inlineOf reads a limit that the request brings along.
func inlineOf(q url.Values) (*engine.Limit, error) {
	l := new(engine.Limit)
	var err error
	if l.N, err = numberOf(q, "limit", 1); err != nil {
		return nil, err
	}
	if l.Per, err = units.ParseDuration(q.Get("per")); err != nil {
		return nil, NewProblem(api.CodeInvalidLimit, "per", "per: "+err.Error())
	}
	if q.Has("burst") {
		if l.Burst, err = numberOf(q, "burst", 1); err != nil {
			return nil, err
		}
	}
	if !q.Has("algorithm") {
		return l, nil
	}
	for _, l.Algorithm = range []limit.Algorithm{limit.Window, limit.Fixed, limit.GCRA} {
		if l.Algorithm.String() == q.Get("algorithm") {
			return l, nil
		}
	}
	return nil, NewProblem(api.CodeInvalidLimit, "algorithm", "algorithm must be window, fixed or gcra")
}

func numberOf(q url.Values, name string, least uint64) (uint64, error) {
	n, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil || n < least || n > limit.MaxBurst {
		code, more := api.CodeInvalidCount, ""
		if name == "limit" {
			more = ", for there is a per; a policy is named without one"
		}
		return 0, NewProblem(code, name, fmt.Sprintf("%s must be a whole number from %d to %d%s", name, least, uint64(limit.MaxBurst), more))
	}
	return n, nil
}

const allowQueryDescription = "`POST /v1/allow` for the shell: `curl -sf 'localhost:8080/v1/allow?key=login:bob' && echo come in`. It takes what it asks for, as " +
	"HEAD does. Nothing of a body is read. Several keys are taken all or none."

// registerAllowQuery routes GET /v1/allow as registerAllow does its POST.
func (s *DecisionRoutes) registerAllowQuery(doc *API, mux DecisionsMux) {
	mux.HandleFunc("GET /v1/allow", s.allowQuery)
	answer := map[string]*huma.MediaType{"application/json": {Schema: SchemaFor[api.AllowAnswer](doc)}}
	responses := doc.Responses(append(queryCodes(), api.CodeOwnerUnreachable, api.CodeOverloaded, api.CodeClosed)...)
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
		"RateLimit-Policy": {Description: "The limits that are enforced: `\"login\";q=5;w=60` is 5 per 60 s, `\"api\";q=1000;w=1;weir-burst=50` 1000 per second, 50 at once. pk, a hash of the key, distinguishes keys of one limit.", Schema: text},
		"RateLimit":        {Description: "Of each r, what may pass at once now, and in how many seconds t all is there again, or it would not deny: `\"login\";r=3;t=12`.", Schema: text},
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
		{Name: "burst", Description: "How many at once. Default: the limit.", Schema: whole(1)},
		{Name: "algorithm", Description: "How it is kept.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"window", "fixed", "gcra"}, Default: "window"}},
		{Name: "name", Description: "Name under which the usage of keys is kept. Default: inline/, the algorithm and the period.", Schema: text},
		{Name: "n", Description: "How many admissions; 0 asks only.", Schema: whole(0)},
	}
	for _, p := range params {
		p.In = "query"
	}
	return params
}
