package decide

import (
	"net/http"
	"strconv"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/server/forwarded"
	"github.com/weir-counter/weir/server/problem"
)

// TokenHeader is where a proxy sends its token: Authorization is that of its client, who is nobody to this server.
const TokenHeader = "X-Weir-Token"

// forwardParams are the parameters of origin.ForwardAuthPath.
var forwardParams = append([]string{"denied", "hops"}, limitParams...)

// forwardAuth answers a proxy that asks whether a request may pass: 200, or 429 with the time to
// wait. Whatever else goes wrong is a server's error, since the proxy may pass it to its client.
func (s *Routes) forwardAuth(w http.ResponseWriter, r *http.Request) {
	withoutBody(w, r)
	a := s.states.Get().(*allowing)
	defer s.states.Put(a)
	denied, err := s.decideForwarded(a, r)
	if err != nil {
		problem.OfProxy(err).Write(w)
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
func (s *Routes) decideForwarded(a *allowing, r *http.Request) (denied int, err error) {
	if len(r.Header[forwarded.Mark]) == 0 {
		return 0, problem.New(api.CodeInvalidParameter, forwarded.Mark, "this is for proxies, which say in "+forwarded.Mark+" what their client asks for: have the proxy send it (docs/proxies.md), or ask /v1/allow")
	}
	q, err := queryOf(r, forwardParams)
	if err != nil {
		return 0, err
	}
	denied = http.StatusTooManyRequests
	if q.Has("denied") {
		if denied, err = strconv.Atoi(q.Get("denied")); err != nil || denied < 400 || denied > 499 {
			return 0, problem.New(api.CodeInvalidParameter, "denied", "denied must be a status from 400 to 499: nginx takes 403")
		}
	}
	of := forwarded.Request{Header: r.Header, Hops: 1}
	if q.Has("hops") {
		if of.Hops, err = strconv.Atoi(q.Get("hops")); err != nil || of.Hops < 1 || of.Hops > forwarded.MaxHops {
			return 0, problem.New(api.CodeInvalidParameter, "hops", "hops must be a number from 1 to "+strconv.Itoa(forwarded.MaxHops)+": how many proxies of yours a request comes through")
		}
	}
	requests, err := limitOf(q)
	if err != nil {
		return 0, err
	}
	for i := range requests {
		template, err := forwarded.Parse(requests[i].Key)
		if err != nil {
			return 0, err
		}
		if requests[i].Key, err = template.Key(&of); err != nil {
			return 0, err
		}
	}
	return denied, s.askLimits(a, r, requests, false)
}
