package ingest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/body"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

// hitsParams are what a request of hits asks for beside its body.
type hitsParams struct {
	durable bool   // answer when the hits are on disk
	key     string // of idempotency; empty: none
}

const (
	durableParam   = "durable"
	ReplayedHeader = "Idempotency-Replayed"
)

func readHitsParams(r *http.Request) (o hitsParams, p *problem.Problem) {
	if r.URL.RawQuery != "" {
		if o.durable, p = readDurable(r.URL.RawQuery); p != nil {
			return o, p
		}
	}
	key, bad := body.ReadKey(r.Header.Values(body.IdempotencyKey))
	if bad != nil {
		return o, problem.Of(bad)
	}
	o.key = key
	return o, nil
}

// readDurable reads the query of a request of hits. A parameter that is not
// known is refused: a misspelt durable must not pass for a promise.
func readDurable(query string) (durable bool, p *problem.Problem) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return false, problem.New(api.CodeInvalidParameter, "", "the query is not one: "+service.Clip(err.Error()))
	}
	for name := range values {
		if name != durableParam {
			return false, problem.New(api.CodeUnknownParameter, service.Clip(name), service.Clip(name)+": unknown query parameter: there is durable=true")
		}
	}
	given := values[durableParam]
	if len(given) == 0 {
		return false, nil
	}
	if durable, err = strconv.ParseBool(given[0]); err != nil || len(given) > 1 {
		return false, problem.New(api.CodeInvalidParameter, durableParam, "durable is "+service.Clip(strconv.Quote(strings.Join(given, ",")))+": it must be true or false, once")
	}
	return durable, nil
}
