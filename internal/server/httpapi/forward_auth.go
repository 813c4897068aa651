package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
)

// ForwardAuthPath is where proxies ask.
const ForwardAuthPath = "/v1/forward-auth"

// TokenHeader is where a proxy sends its token: Authorization has what its client sent, who is unknown to this server.
const TokenHeader = "X-Weir-Token"

// maxQueryKeys bounds the keys of a URL.
const maxQueryKeys = 8

// forwardAuth answers a proxy that asks whether a request may pass: 200, or 429 with the time to
// wait. Whatever else goes wrong is a server's error, since the proxy may pass it to its client.
func (s *Server) forwardAuth(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.ContentLength != 0 { // nothing of a body is read
		w.Header().Set("Connection", "close") // else net/http reads it, before the answer leaves
	}
	a := s.decisions.Get().(*allowing)
	defer s.decisions.Put(a)
	denied, err := s.decideForwarded(a, r)
	if err != nil {
		ProblemOfProxy(err).Write(w)
		return
	}
	d, h := &a.decision, w.Header()
	setRateLimit(h, d, &a.fields)
	if d.Allowed {
		w.WriteHeader(http.StatusOK)
		return
	}
	seconds := ratelimitfields.RetryAfter(d.RetryAfter)
	h.Set("Retry-After", seconds)
	setDenial(h, d)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	a.answer = append(append(append(a.answer[:0], "Too many requests: try again in "...), seconds...), " s.\n"...)
	w.WriteHeader(denied)
	if _, err := w.Write(a.answer); err != nil {
		s.log.DebugContext(r.Context(), "answer not taken", "path", r.URL.Path, "error", err)
	}
}

// forwardParams are the parameters of ForwardAuthPath.
var forwardParams = []string{"denied", "hops", "key", "limit", "per", "burst", "algorithm", "name", "n"}

// decideForwarded asks the limits, and says with which status a denial is answered.
func (s *Server) decideForwarded(a *allowing, r *http.Request) (denied int, err error) {
	if len(r.Header[ForwardedMark]) == 0 {
		return 0, fail(api.CodeInvalidParameter, ForwardedMark, "this is for proxies, which say in "+ForwardedMark+" what their client asks for: have the proxy send it (docs/proxies.md), or ask /v1/allow")
	}
	q, err := queryOf(r, "", forwardParams...)
	if err != nil {
		return 0, err
	}
	for name, values := range q {
		switch {
		case slices.Contains(values, ""):
			return 0, fail(api.CodeInvalidParameter, name, name+" is empty: give it a value or leave it out")
		case len(values) > 1 && name != "key":
			return 0, fail(api.CodeInvalidParameter, name, fmt.Sprintf("%s is given %d times: give it once", name, len(values)))
		}
	}
	denied = http.StatusTooManyRequests
	if q.Has("denied") {
		if denied, err = strconv.Atoi(q.Get("denied")); err != nil || denied < 400 || denied > 499 {
			return 0, fail(api.CodeInvalidParameter, "denied", "denied must be a status from 400 to 499: nginx takes 403")
		}
	}
	asked := ForwardedRequest{Header: r.Header, Hops: 1}
	if q.Has("hops") {
		if asked.Hops, err = strconv.Atoi(q.Get("hops")); err != nil || asked.Hops < 1 || asked.Hops > MaxForwardedHops {
			return 0, fail(api.CodeInvalidParameter, "hops", "hops must be a number from 1 to "+strconv.Itoa(MaxForwardedHops)+": how many proxies of yours a request comes through")
		}
	}
	requests, err := limitOf(q)
	if err != nil {
		return 0, err
	}
	for i := range requests {
		template, err := ParseForwarded(requests[i].Key)
		if err != nil {
			return 0, err
		}
		if requests[i].Key, err = template.Key(&asked); err != nil {
			return 0, err
		}
	}
	return denied, s.askLimits(a, r, requests, false)
}

// limitOf reads what is asked: for each key a request, all with the same limit.
func limitOf(q url.Values) ([]admit.Request, error) {
	keys := q["key"]
	switch {
	case len(keys) == 0:
		return nil, fail(api.CodeMissingKey, "key", "key is missing: name the key that is limited")
	case len(keys) > maxQueryKeys:
		return nil, fail(api.CodeInvalidCount, "key", fmt.Sprintf("there are %d keys: at most %d", len(keys), maxQueryKeys))
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
				return nil, fail(api.CodeInvalidLimit, name, name+" belongs to a limit of the request's own: give limit and per too, such as limit=100&per=1m")
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

// inlineOf reads a limit that the request brings along.
func inlineOf(q url.Values) (*engine.Limit, error) {
	l := new(engine.Limit)
	var err error
	if l.N, err = numberOf(q, "limit", 1); err != nil {
		return nil, err
	}
	if l.Per, err = units.ParseDuration(q.Get("per")); err != nil {
		return nil, fail(api.CodeInvalidLimit, "per", "per: "+err.Error())
	}
	if q.Has("burst") {
		if l.Burst, err = numberOf(q, "burst", 1); err != nil {
			return nil, err
		}
	}
	ok := false
	if l.Algorithm, ok = limit.ParseAlgorithm(q.Get("algorithm")); !ok && q.Has("algorithm") {
		return nil, fail(api.CodeInvalidLimit, "algorithm", "algorithm must be window, fixed or gcra")
	}
	return l, nil
}

func numberOf(q url.Values, name string, least uint64) (uint64, error) {
	n, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil || n < least || n > limit.MaxBurst {
		code, more := api.CodeInvalidCount, ""
		if name == "limit" {
			more = ", for there is a per; a policy is named without one"
		}
		return 0, fail(code, name, fmt.Sprintf("%s must be a whole number from %d to %d%s", name, least, uint64(limit.MaxBurst), more))
	}
	return n, nil
}

// forwardQuestion describes forwardParams and the fields that are read.
type forwardQuestion struct {
	Keys      []string `query:"key,explode" required:"true" maxItems:"8" doc:"Template of the key. May be repeated, at most 8 times." example:"[\"ip:(client)\"]"`
	Denied    int      `query:"denied" minimum:"400" maximum:"499" default:"429" doc:"The status of a denial: auth_request of nginx knows 403 only."`
	Hops      int      `query:"hops" minimum:"1" maximum:"10" default:"1" doc:"Number of your proxies that a request passes, including the asking one. It selects the client's address in X-Forwarded-For, from the right."`
	Limit     string   `query:"limit" doc:"Name of one policy; or, with per, a number: a limit sent with the request. Default: all policies that match the key."`
	Per       string   `query:"per" doc:"The period of a limit of the request's own, such as 1m."`
	Burst     uint64   `query:"burst" minimum:"1" maximum:"35184372088832" doc:"How many at once. Default: the limit."`
	Algorithm string   `query:"algorithm" enum:"window,fixed,gcra" default:"window" doc:"Algorithm of the limit."`
	Name      string   `query:"name" doc:"Name under which the usage of keys is stored. Default: inline/, the algorithm and the period."`
	N         uint64   `query:"n" minimum:"0" maximum:"35184372088832" doc:"How many admissions; 0 asks only."`
	URI       string   `header:"X-Forwarded-Uri" required:"true" doc:"The client's request URI. Its presence marks the sender as a proxy."`
	For       string   `header:"X-Forwarded-For" doc:"Of (client)."`
	Host      string   `header:"X-Forwarded-Host" doc:"Of (host)."`
	Method    string   `header:"X-Forwarded-Method" doc:"Of (method)."`
	Token     string   `header:"X-Weir-Token" doc:"Of a server with a tokens file."`
}

const forwardAuthDescription = `Decides for a proxy whether a request of its client may pass: forward_auth of Caddy, auth_request of nginx, ForwardAuth of Traefik. 200: it
may; 429: it may not. Any method works, and no body is read.

**Keys** are made of what the proxy reports:

- ` + "`ip:(client)`" + `: the client's address, IPv6 as its /64: the last one of X-Forwarded-For, or with ` + "`hops=2`" + ` the last but one
- ` + "`(host)`" + `, ` + "`(method)`" + `: X-Forwarded-Host in lower case without the port, and X-Forwarded-Method
- ` + "`(path)`" + `: X-Forwarded-Uri, decoded and cleaned; ` + "`(path:2)`" + ` its first two parts
- ` + "`(header:X-User)`" + `: a field, ` + "`(hash:Authorization)`" + ` the hash of one

` + "`{client}`" + ` is the same as ` + "`(client)`" + `. A missing value is ` + "`-`" + `.

**Tokens** are in X-Weir-Token, since Authorization belongs to the client.

**Other errors** are 500 or 503, whatever the code: the proxy's client can do nothing about them.`

// registerForwardAuth routes any method, and describes GET.
func (s *Server) registerForwardAuth(to *router) {
	responses := describe[forwardQuestion, RateLimitFields](to, route{
		pattern: ForwardAuthPath, id: "forwardAuth", need: decides.isHot(), status: http.StatusOK,
		codes:   []api.Code{api.CodeInternal, api.CodeOwnerUnreachable, api.CodeOverloaded, api.CodeClosed},
		summary: "Decide for a proxy whether a request may pass", description: forwardAuthDescription,
	}, s.forwardAuth)
	delete(responses, "401")
	responses["200"].Description = "The request may pass"
	responses["403"].Description = "With `denied=403`, a limit denies the request. Or, as a problem: `" + string(api.CodeForbiddenOrigin) + "`"
	responses["429"] = &huma.Response{
		Description: "A limit denies the request, and nothing was taken", Headers: deniedFields(responses["200"].Headers),
		Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}
	responses["500"].Description = "The proxy's request is invalid: a problem with the code and the reason"
	responses["503"].Description = "No node decides now, or the proxy's identity has reached its ceiling: a problem with the code and the reason"
}
