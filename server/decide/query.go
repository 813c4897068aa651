package decide

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

// limitParams are the parameters by which a URL says what is asked for a key.
var limitParams = []string{"key", "limit", "per", "burst", "algorithm", "name", "n"}

// maxQueryKeys bounds the keys of a URL.
const maxQueryKeys = 8

// allowQuery is GET /v1/allow: the decision of a key for the shell.
func (s *Routes) allowQuery(w http.ResponseWriter, r *http.Request) {
	withoutBody(w, r)
	a := s.states.Get().(*allowing)
	defer s.states.Put(a)
	if err := s.decideQuery(a, r); err != nil {
		problem.Of(err).Write(w)
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

func (s *Routes) decideQuery(a *allowing, r *http.Request) error {
	q, err := queryOf(r, append([]string{"peek", "cost"}, limitParams...))
	if err != nil {
		return err
	}
	peek := false
	if text := q.Get("peek"); q.Has("peek") {
		if peek, err = strconv.ParseBool(text); err != nil {
			return problem.New(api.CodeInvalidParameter, "peek", "peek must be true or false")
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
		if bad := service.CheckKey(requests[i].Key); bad != nil {
			return problem.New(bad.Code, "key", bad.Message)
		}
	}
	return s.askLimits(a, r, requests, peek)
}

// queryOf reads the parameters of a URL, each of which may be there once, keys and costs several times.
func queryOf(r *http.Request, known []string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem.New(api.CodeInvalidParameter, "", "the query is not one: "+service.Clip(err.Error()))
	}
	for name, values := range q {
		switch {
		case !slices.Contains(known, name):
			return nil, problem.New(api.CodeUnknownParameter, service.Clip(name), service.Clip(name)+": unknown query parameter")
		case slices.Contains(values, ""):
			return nil, problem.New(api.CodeInvalidParameter, name, name+" is empty: give it a value or leave it out")
		case len(values) > 1 && name != "key" && name != "cost":
			return nil, problem.New(api.CodeInvalidParameter, name, fmt.Sprintf("%s is given %d times: give it once", name, len(values)))
		}
	}
	return q, nil
}

// limitOf reads what is asked: for each key a request, all with the same limit.
func limitOf(q url.Values) ([]admit.Request, error) {
	keys := q["key"]
	switch {
	case len(keys) == 0:
		return nil, problem.New(api.CodeMissingKey, "key", "key is missing: name the key that is limited")
	case len(keys) > maxQueryKeys:
		return nil, problem.New(api.CodeInvalidCount, "key", fmt.Sprintf("there are %d keys: at most %d in a URL, and %d by POST /v1/allow", len(keys), maxQueryKeys, weir.MaxChecks))
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
				return nil, problem.New(api.CodeInvalidLimit, name, name+" belongs to a limit of the request's own: give limit and per too, such as limit=100&per=1m")
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
		return nil, problem.New(api.CodeInvalidCount, "cost", fmt.Sprintf("there are %d costs: at most %d", len(values), admit.MaxCosts))
	}
	var costs []admit.Cost
	for _, text := range values {
		name, number, _ := strings.Cut(text, "=")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || name == "" || n > limit.MaxBurst {
			return nil, problem.New(api.CodeInvalidCount, "cost", fmt.Sprintf("cost must be a name and a whole number from 0 to %d, such as cost=tokens=812", uint64(limit.MaxBurst)))
		}
		if slices.ContainsFunc(costs, func(c admit.Cost) bool { return c.Field == name }) {
			return nil, problem.New(api.CodeInvalidCount, "cost", "cost "+service.Clip(name)+" is given twice: give it once")
		}
		costs = append(costs, admit.Cost{Field: name, N: n})
	}
	return costs, nil
}

// inlineOf reads a limit that the request brings along.
func inlineOf(q url.Values) (*weir.Limit, error) {
	l := new(weir.Limit)
	var err error
	if l.N, err = numberOf(q, "limit", 1); err != nil {
		return nil, err
	}
	if l.Per, err = units.ParseDuration(q.Get("per")); err != nil {
		return nil, problem.New(api.CodeInvalidLimit, "per", "per: "+err.Error())
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
	return nil, problem.New(api.CodeInvalidLimit, "algorithm", "algorithm must be window, fixed or gcra")
}

func numberOf(q url.Values, name string, least uint64) (uint64, error) {
	n, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil || n < least || n > limit.MaxBurst {
		code, more := api.CodeInvalidCount, ""
		if name == "limit" {
			more = ", for there is a per; a policy is named without one"
		}
		return 0, problem.New(code, name, fmt.Sprintf("%s must be a whole number from %d to %d%s", name, least, uint64(limit.MaxBurst), more))
	}
	return n, nil
}
