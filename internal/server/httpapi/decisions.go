package httpapi

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/internal/service/request"
)

// These routes decide by limits (POST /v1/allow), or give back (POST /v1/refund) or reserve (POST /v1/reserve) what a decision
// takes. All have the same body.
//
// Invariant: a decision allocates nothing beyond what net/http needs: its memory is pooled. A large body enters a
// pool before it is read; a small one does not.

const (
	// MaxDecisionBytes bounds the body of POST /v1/allow: MaxChecks keys of MaxKeyBytes, each
	// byte as an escape of six letters, and what stands between.
	MaxDecisionBytes = 256 << 10

	// keptAllowBytes is the largest buffer that is kept for the next request.
	keptAllowBytes = 16 << 10
)

// allowing is the state of one request to POST /v1/allow. It is pooled: its buffers are
// most of what a request would otherwise allocate.
type allowing struct {
	parser   AllowParser
	decision admit.Decision
	fields   ratelimitfields.List
	body     []byte
	answer   []byte
}

func newAllowing() any {
	return &allowing{parser: NewAllowParser(), body: make([]byte, 0, 512), answer: make([]byte, 0, 1<<10)}
}

// allow is POST /v1/allow.
func (s *Server) allow(w http.ResponseWriter, r *http.Request) {
	a := s.decisions.Get().(*allowing)
	defer s.keepDecision(a)
	err := allowParams(r)
	if err == nil {
		err = s.readAllow(a, w, r)
	}
	if err == nil {
		err = s.askLimits(a, r, a.parser.Requests, a.parser.Peek)
	}
	if err != nil {
		refuseDecision(w, err)
		return
	}
	s.answerDecision(a, w, r, "", false)
}

// keepDecision keeps memory for the next request, unless it is large.
func (s *Server) keepDecision(a *allowing) {
	if cap(a.body) <= keptAllowBytes && cap(a.answer) <= keptAllowBytes {
		s.decisions.Put(a)
	}
}

// refuseDecision answers an error, and names what is accepted when something else was sent.
func refuseDecision(w http.ResponseWriter, err error) {
	p := ProblemOf(err)
	switch p.Code {
	case api.CodeUnsupportedType:
		w.Header().Set("Accept-Post", "application/json")
	case api.CodeUnsupportedEncoding:
		w.Header().Set("Accept-Encoding", AcceptedEncodings)
	}
	p.Write(w)
}

// askLimits asks the limits. A client that hangs up while it waits for its turn gives that to others.
func (s *Server) askLimits(a *allowing, r *http.Request, requests []admit.Request, peek bool) error {
	a.decision.Context = r.Context()
	err := s.service.Allow(clientOf(r), requests, peek, &a.decision)
	a.decision.Context = nil
	return err
}

// allowParams refuses what a decision can't keep. A take that came again under an Idempotency-Key would have to get the
// first verdict, which is no longer true.
func allowParams(r *http.Request) error {
	if r.URL.RawQuery != "" {
		if _, err := queryOf(r, ": all that is asked stands in the body"); err != nil {
			return err
		}
	}
	if r.Header.Get(IdempotencyKey) != "" {
		return fail(api.CodeInvalidIdempotencyKey, IdempotencyKey,
			"an Idempotency-Key is not taken here, since a verdict holds for its moment only: leave it out, and treat an answer that was lost as admissions that may have been taken")
	}
	return nil
}

// queryOf reads the parameters of a URL, which must be known; hint is what to say of others.
func queryOf(r *http.Request, hint string, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fail(api.CodeInvalidParameter, "", "the query is not one: "+request.Clip(err.Error()))
	}
	for name := range q {
		if !slices.Contains(known, name) {
			return nil, fail(api.CodeUnknownParameter, request.Clip(name), request.Clip(name)+": unknown query parameter"+hint)
		}
	}
	return q, nil
}

// readAllow reads and parses the body. It enters a pool only for a large one: see SmallBody.
func (s *Server) readAllow(a *allowing, w http.ResponseWriter, r *http.Request) error {
	contentType := r.Header.Get("Content-Type")
	if f, err := BodyFormatOf(contentType); err != nil || f != JSONDocument {
		return fail(api.CodeUnsupportedType, "Content-Type", "Content-Type "+request.Clip(strconv.Quote(contentType))+" is not taken: send application/json (curl -H content-type:application/json, or curl --json)")
	}
	limit := min(MaxDecisionBytes, s.ceilings.MaxBodyBytes)
	if r.Header.Get("Content-Encoding") == "" && r.ContentLength >= 0 && r.ContentLength <= min(limit, SmallBody) {
		c := ConnOf(r)
		c.Waits(true)
		defer c.Waits(false)
		return a.read(r.Body, limit) // net/http reads no more than the declared length
	}
	leave, err := s.Upload(w, r)
	if err != nil {
		return err
	}
	defer leave()
	plain, release, err := DecodedBody(r, limit)
	defer release()
	if err != nil {
		return err
	}
	return a.read(plain, limit)
}

// read reads from to its end, and parses it.
func (a *allowing) read(from io.Reader, limit int64) error {
	a.body = a.body[:0]
	for {
		if len(a.body) == cap(a.body) {
			a.body = append(a.body, 0)[:len(a.body)]
		}
		n, err := from.Read(a.body[len(a.body):cap(a.body)])
		a.body = a.body[:len(a.body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return a.parser.Parse(a.body)
		case err != nil:
			return BrokenBody(err, limit)
		}
	}
}

// answerDecision writes the verdict: 200, or 429 with the time to wait. id is of a reservation that was made, or is known.
func (s *Server) answerDecision(a *allowing, w http.ResponseWriter, r *http.Request, id string, known bool) {
	d, h := &a.decision, w.Header()
	setRateLimit(h, d, &a.fields)
	h["Content-Type"] = jsonType
	status := http.StatusOK
	if !d.Allowed {
		status = http.StatusTooManyRequests
		h.Set("Retry-After", ratelimitfields.RetryAfter(d.RetryAfter))
		setDenial(h, d)
	}
	a.answer = appendAnswer(a.answer[:0], d, id, known)
	w.WriteHeader(status)
	if _, err := w.Write(a.answer); err != nil {
		s.log.DebugContext(r.Context(), "answer not taken", "path", r.URL.Path, "error", err)
	}
}

// jsonType is shared by answers, which do not write to it.
var jsonType = []string{"application/json"}

// reserve is POST /v1/reserve.
func (s *Server) reserve(w http.ResponseWriter, r *http.Request) {
	a := s.decisions.Get().(*allowing)
	defer s.keepDecision(a)
	terms, err := reservation(r)
	if err == nil {
		err = s.readAllow(a, w, r)
	}
	if err == nil && a.parser.Peek {
		err = fail(api.CodeInvalidParameter, "peek", "peek: a reservation takes; ask /v1/allow")
	}
	if err != nil {
		refuseDecision(w, err)
		return
	}
	id, known, err := s.service.Reserve(clientOf(r), a.parser.Requests, terms, &a.decision)
	if err != nil {
		refuseDecision(w, err)
		return
	}
	if known {
		a.decision = admit.Decision{Allowed: true}
	}
	s.answerDecision(a, w, r, id, known)
}

// reservation reads the parameters of POST /v1/reserve.
func reservation(r *http.Request) (terms limits.Reservation, err error) {
	q, err := queryOf(r, ": there are id, ttl and unsettled", "id", "ttl", "unsettled")
	if err != nil {
		return terms, err
	}
	terms.ID = q.Get("id")
	if q.Has("ttl") {
		if terms.TTL, err = request.ParseWindow("ttl", q.Get("ttl")); err != nil {
			return terms, err
		}
	}
	switch unsettled := q.Get("unsettled"); {
	case unsettled == "returned":
		terms.GiveBack = true
	case q.Has("unsettled") && unsettled != "used":
		return terms, fail(api.CodeInvalidParameter, "unsettled", "unsettled of "+request.Clip(unsettled)+": must be used or returned")
	}
	return terms, nil
}

// refund is POST /v1/refund.
func (s *Server) refund(w http.ResponseWriter, r *http.Request) {
	a := s.decisions.Get().(*allowing)
	defer s.keepDecision(a)
	made, err := s.refunded(a, w, r)
	if err != nil {
		refuseDecision(w, err)
		return
	}
	writeJSON(w, made)
}

func (s *Server) refunded(a *allowing, w http.ResponseWriter, r *http.Request) (none api.RefundAnswer, err error) {
	q, err := queryOf(r, ": there is taken", "taken")
	if err != nil {
		return none, err
	}
	taken, err := request.ParseTime("taken", q.Get("taken"))
	if err != nil {
		return none, err
	}
	again, bad := ReadKey(r.Header.Values(IdempotencyKey))
	if bad != nil {
		return none, bad
	}
	if err := s.readAllow(a, w, r); err != nil {
		return none, err
	}
	return s.service.Refund(r.Context(), clientOf(r), a.parser.Requests, taken, again)
}

const allowDescription = `Takes n admissions of a key if its limits allow it: 200 if the request may pass, 429 if not, with the answer of each limit.

**Limits.** Without ` + "`limit`" + ` all policies that match the key apply. The name of a policy selects that one, which must match the key.
An object is a limit sent with the request: ` + "`{\"n\":1000,\"per\":\"1s\",\"burst\":1000,\"algorithm\":\"window\"}`" + `. Its usage is stored under its ` + "`name`" + `,
or under algorithm and period. A key that matches no policy is allowed, as ` + "`unmatched`" + `.

**Waiting.** With a policy's ` + "`wait`" + `, the answer can come that much later. It then has ` + "`waited_s`" + ` and the header field Weir-Waited.

**Costs.** ` + "`\"costs\":{\"tokens\":812}`" + `: policies with ` + "`cost: tokens`" + ` take this instead of n.

**Several keys.** ` + "`{\"checks\":[{\"key\",\"limit\",\"n\"},...]}`" + `, at most 64, are taken all or none.

**Peeking.** n = 0 reports what is left, ` + "`\"peek\":true`" + ` the decision for n. Neither takes nor counts anything.`

const reserveDescription = `Takes what a request may need, with the body of POST /v1/allow. POST /v1/settle later reports the real use and returns the rest.
An unsettled reservation stays used, or is returned after its ttl (` + "`unsettled=returned`" + `). With your own ` + "`id`" + ` the request can be
repeated: a known id takes nothing more, and is refused with other content. At most 100,000 reservations are open, counted for each limit.`

const refundDescription = `Returns what POST /v1/allow took, with the same body. ` + "`taken`" + ` is the time of the admission;
without it the newest admissions are returned. What has left the window, or was refilled in a bucket, cannot be returned:
` + "`refunded`" + ` says how many more admissions are possible. With an Idempotency-Key the request can be repeated for ten minutes.`

// decisionCodes are what may be wrong with the body of a decision, and with asking limits.
var decisionCodes = []api.Code{
	api.CodeEmptyBody, api.CodeInvalidJSON, api.CodeUnknownField, api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidLimit, api.CodeInvalidCount,
	api.CodeInvalidParameter, api.CodeUnknownParameter, api.CodeBodyBroken, api.CodeUnknownLimit, api.CodeBodyTimeout, api.CodeBodyTooLarge,
	api.CodeUnsupportedType, api.CodeUnsupportedEncoding, api.CodeOverloaded, api.CodeClosed,
}

// RateLimitFields are the header fields of an answer of limits. It is exported for huma.
type RateLimitFields struct {
	Policy string `header:"RateLimit-Policy" doc:"The limits that are enforced: \"login\";q=5;w=60 is 5 per 60 s, \"api\";q=1000;w=1;weir-burst=50 1000 per second, 50 at once. pk, a hash of the key, distinguishes keys of one limit."`
	Limit  string `header:"RateLimit" doc:"Of each r, what may pass at once now, and in how many seconds t all is there again, or it would not deny: \"login\";r=3;t=12."`
}

type decisionOutput[A any] struct {
	RateLimitFields
	Body A
}

type reserveQuestion struct {
	TTL       string `query:"ttl" doc:"Time within which it must be settled, up to 24h. Default 1m."`
	ID        string `query:"id" doc:"1 to 64 bytes, another for each reservation. Default: one is made."`
	Unsettled string `query:"unsettled" doc:"used (default): an unsettled reservation stays used; returned: it is given back five seconds after its ttl."`
}

type refundQuestion struct {
	Taken string `query:"taken" doc:"When they were taken: RFC 3339 or Unix seconds. Default: last."`
	Key   string `header:"Idempotency-Key" doc:"A name for this request that no other has, such as a UUID, to send it again by."`
}

// registerDecisions describes routes that huma would make several times slower.
func (s *Server) registerDecisions(to *router) {
	schema := to.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.AllowObject](), true, "AllowRequest")
	body := func(example map[string]any) *huma.RequestBody {
		return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema, Example: example}}}
	}
	denies(describe[struct{}, decisionOutput[api.AllowAnswer]](to, route{
		pattern: "POST /v1/allow", id: "allow", need: decides.isHot(), codes: append(slices.Clip(decisionCodes), api.CodeInvalidIdempotencyKey, api.CodeOwnerUnreachable),
		summary: "Ask limits whether a request may pass", description: allowDescription,
		body: body(map[string]any{"checks": []any{
			map[string]any{"key": "login:bob"},
			map[string]any{"key": "user:42", "limit": map[string]any{"n": 1000, "per": "1s"}, "n": 2},
		}}),
	}, s.allow))
	denies(describe[reserveQuestion, decisionOutput[api.ReserveAnswer]](to, route{
		pattern: "POST /v1/reserve", id: "reserve", need: decides,
		codes:   append(slices.Clip(decisionCodes), api.CodeInvalidWindow, api.CodeKeyReused, api.CodeNotHeld, api.CodeOwnerUnreachable),
		summary: "Reserve what a request may need", description: reserveDescription,
		body: body(map[string]any{"key": "team:7", "n": 1000}),
	}, s.reserve))
	responses := describe[refundQuestion, answer[api.RefundAnswer]](to, route{
		pattern: "POST /v1/refund", id: "refund", need: decides.audited("refund"),
		codes:   append(slices.Clip(decisionCodes), api.CodeInvalidTime, api.CodeNotHeld, api.CodeInvalidIdempotencyKey, api.CodeKeyReused, api.CodeOnceFull),
		summary: "Return admissions", description: refundDescription,
		body: body(map[string]any{"key": "team:7", "n": 700}),
	}, s.refund)
	responses["200"].Description = "The result for each limit"
	s.registerForwardAuth(to)
}

// denies completes the responses of a route that answers a denial as it answers what may pass.
func denies(responses map[string]*huma.Response) {
	pass, over := responses["200"], responses["429"] // of the caller's own ceiling, as a problem
	pass.Description = "The request may pass"
	over.Description = "A limit denies the request, and nothing was taken. Or, as a problem: `" + string(api.CodeCeiling) + "`"
	over.Content["application/json"] = pass.Content["application/json"]
	over.Headers = deniedFields(pass.Headers)
}

// deniedFields are the fields of an answer, and Retry-After.
func deniedFields(fields map[string]*huma.Param) map[string]*huma.Param {
	fields = maps.Clone(fields)
	fields["Retry-After"] = &huma.Param{Description: "Whole seconds, rounded up.", Schema: &huma.Schema{Type: huma.TypeInteger}}
	return fields
}
