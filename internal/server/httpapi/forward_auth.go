package httpapi

import (
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/ratelimitfields"
)

// TokenHeader is where a proxy sends its token: Authorization is that of its client, who is nobody to this server.
const TokenHeader = "X-Weir-Token"

// forwardParams are the parameters of origin.ForwardAuthPath.
var forwardParams = append([]string{"denied", "hops"}, limitParams...)

// forwardAuth answers a proxy that asks whether a request may pass: 200, or 429 with the time to
// wait. Whatever else goes wrong is a server's error, since the proxy may pass it to its client.
func (s *DecisionRoutes) forwardAuth(w http.ResponseWriter, r *http.Request) {
	withoutBody(w, r)
	a := s.states.Get().(*allowing)
	defer s.states.Put(a)
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

// decideForwarded asks the limits, and says with which status a denial is answered.
func (s *DecisionRoutes) decideForwarded(a *allowing, r *http.Request) (denied int, err error) {
	if len(r.Header[ForwardedMark]) == 0 {
		return 0, NewProblem(api.CodeInvalidParameter, ForwardedMark, "this is for proxies, which say in "+ForwardedMark+" what their client asks for: have the proxy send it (docs/proxies.md), or ask /v1/allow")
	}
	q, err := queryOf(r, forwardParams)
	if err != nil {
		return 0, err
	}
	denied = http.StatusTooManyRequests
	if q.Has("denied") {
		if denied, err = strconv.Atoi(q.Get("denied")); err != nil || denied < 400 || denied > 499 {
			return 0, NewProblem(api.CodeInvalidParameter, "denied", "denied must be a status from 400 to 499: nginx takes 403")
		}
	}
	of := ForwardedRequest{Header: r.Header, Hops: 1}
	if q.Has("hops") {
		if of.Hops, err = strconv.Atoi(q.Get("hops")); err != nil || of.Hops < 1 || of.Hops > MaxForwardedHops {
			return 0, NewProblem(api.CodeInvalidParameter, "hops", "hops must be a number from 1 to "+strconv.Itoa(MaxForwardedHops)+": how many proxies of yours a request comes through")
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
		if requests[i].Key, err = template.Key(&of); err != nil {
			return 0, err
		}
	}
	return denied, s.askLimits(a, r, requests, false)
}

const forwardAuthDescription = `Tells a proxy whether a request of its client may pass: forward_auth of Caddy, auth_request of nginx, ForwardAuth of Traefik. 200 when it
may, 429 when not. Any method will do, and nothing of a body is read.

**Keys** are made of what the proxy says of the request:

- ` + "`ip:(client)`" + `: the client's address, an IPv6 one as its /64: the last one of X-Forwarded-For, or with ` + "`hops=2`" + ` the last but one
- ` + "`(host)`, `(method)`" + `: of X-Forwarded-Host, in lower case without the port, and X-Forwarded-Method
- ` + "`(path)`" + `: of X-Forwarded-Uri, decoded and cleaned; ` + "`(path:2)`" + ` its first two parts
- ` + "`(header:X-User)`" + `: a field, ` + "`(hash:Authorization)`" + ` a hash of one

` + "`{client}`" + ` is the same as ` + "`(client)`" + `. What is not there is ` + "`-`" + `.

**A token** of a server that asks for one is in X-Weir-Token, since Authorization is the client's own.

**What else goes wrong** is a 500, or a 503, whatever the code: the client of the proxy can do nothing about it.`

// registerForwardAuth routes ForwardAuthPath for any method, and describes GET.
func (s *DecisionRoutes) registerForwardAuth(doc *API, mux DecisionsMux) {
	mux.HandleFunc(ForwardAuthPath, s.forwardAuth)
	text := &huma.Schema{Type: huma.TypeString}
	responses := doc.Responses(api.CodeInternal, api.CodeOwnerUnreachable, api.CodeOverloaded, api.CodeClosed)
	delete(responses, "401")
	responses["200"] = &huma.Response{Description: "The request may pass", Headers: limitFields(false)}
	responses["403"].Description = "With `denied=403`, a limit denies the request. Or, as a problem: `" + string(api.CodeForbiddenOrigin) + "`"
	responses["429"] = &huma.Response{
		Description: "A limit denies the request, and nothing was taken", Headers: limitFields(true),
		Content: map[string]*huma.MediaType{"text/plain": {Schema: text}},
	}
	responses["500"].Description = "What the proxy asks is wrong: a problem with the code and the reason"
	responses["503"].Description = "Nobody decides now, or the proxy's identity has reached its ceiling: a problem with the code and the reason"
	field := func(name, description string, required bool) *huma.Param {
		return &huma.Param{Name: name, In: "header", Description: description, Required: required, Schema: text}
	}
	params := append([]*huma.Param{
		keyParam("A template of what is limited. May be repeated, 8 times at most.", "ip:(client)"),
		{Name: "denied", In: "query", Description: "The status of a denial: auth_request of nginx knows 403 only.", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(400.0), Maximum: new(499.0), Default: 429}},
		{Name: "hops", In: "query", Description: "How many proxies of yours a request comes through, the asking one among them: which address of X-Forwarded-For is the client's, from the right.", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(MaxForwardedHops)), Default: 1}},
	}, limitQueryParams()...)
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "forwardAuth", Method: http.MethodGet, Path: ForwardAuthPath,
		Summary:     "Tell a proxy whether a request may pass",
		Description: forwardAuthDescription,
		Parameters: append(params,
			field(ForwardedMark, "What the client asks for. Only who sends it is taken for a proxy.", true),
			field("X-Forwarded-For", "Of (client).", false), field("X-Forwarded-Host", "Of (host).", false), field("X-Forwarded-Method", "Of (method).", false),
			field(TokenHeader, "Of a server with a tokens file.", false)),
		Responses: responses,
	})
}
