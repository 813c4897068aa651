package ingest

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	weir "github.com/weir-counter/weir"
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
	o.key, p = readKey(r.Header.Values(body.IdempotencyKey))
	return o, p
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

// readKey reads an idempotency key: a quoted string as the IETF's draft has it,
// or the same letters without quotes.
func readKey(values []string) (string, *problem.Problem) {
	if len(values) == 0 {
		return "", nil
	}
	key := strings.Trim(values[0], " \t")
	ok := len(values) == 1
	if strings.HasPrefix(key, `"`) {
		key, ok = unquoteKey(key)
		ok = ok && len(values) == 1
	} else if strings.ContainsAny(key, `",;\ `) {
		ok = false
	}
	control := func(r rune) bool { return r < ' ' || r > '~' }
	if !ok || key == "" || len(key) > weir.MaxOnceKeyBytes || slices.ContainsFunc([]rune(key), control) {
		return "", problem.New(api.CodeInvalidIdempotencyKey, body.IdempotencyKey, "send one Idempotency-Key of 1 to "+strconv.Itoa(weir.MaxOnceKeyBytes)+
			` ASCII characters, such as a UUID; one with a space or any of ",;\ stands in "quotes"`)
	}
	return key, nil
}

// unquoteKey reads a string of RFC 8941: \" and \\ are its only escapes.
func unquoteKey(quoted string) (key string, ok bool) {
	b := make([]byte, 0, len(quoted))
	for i := 1; i < len(quoted); i++ {
		switch c := quoted[i]; c {
		case '"':
			return string(b), i == len(quoted)-1
		case '\\':
			if i++; i == len(quoted) || quoted[i] != '"' && quoted[i] != '\\' {
				return "", false
			}
			b = append(b, quoted[i])
		default:
			b = append(b, c)
		}
	}
	return "", false
}
