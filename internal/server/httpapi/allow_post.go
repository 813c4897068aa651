package httpapi

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/internal/service/request"
)

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
func (s *DecisionRoutes) allow(w http.ResponseWriter, r *http.Request) {
	a := s.states.Get().(*allowing)
	if err := s.decide(a, w, r); err != nil {
		p := ProblemOf(err)
		advertiseJSON(w.Header(), p)
		p.Write(w)
	} else {
		s.answerAllow(a, w, r)
	}
	if cap(a.body) <= keptAllowBytes && cap(a.answer) <= keptAllowBytes {
		s.states.Put(a)
	}
}

// advertiseJSON names what is accepted when something else was sent.
func advertiseJSON(h http.Header, p *Problem) {
	switch p.Code {
	case api.CodeUnsupportedType:
		h.Set("Accept-Post", "application/json")
	case api.CodeUnsupportedEncoding:
		h.Set("Accept-Encoding", AcceptedEncodings)
	}
}

// decide reads the request and asks the limits.
func (s *DecisionRoutes) decide(a *allowing, w http.ResponseWriter, r *http.Request) error {
	if err := allowParams(r); err != nil {
		return err
	}
	if err := s.readAllow(a, w, r); err != nil {
		return err
	}
	if err := a.parser.Parse(a.body); err != nil {
		return err
	}
	return s.askLimits(a, r, a.parser.Requests, a.parser.Peek)
}

// askLimits asks the limits. A client that hangs up while it waits for its turn gives that to others.
func (s *DecisionRoutes) askLimits(a *allowing, r *http.Request, requests []admit.Request, peek bool) error {
	a.decision.Context = r.Context()
	err := s.service.Allow(s.caller(r), requests, peek, &a.decision)
	a.decision.Context = nil
	return err
}

// allowParams refuses what a decision can't keep: a take that came again under an
// Idempotency-Key would have to get the first verdict, which is no longer true.
func allowParams(r *http.Request) error {
	if r.URL.RawQuery != "" {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return NewProblem(api.CodeInvalidParameter, "", "the query is not one: "+request.Clip(err.Error()))
		}
		for name := range values {
			return NewProblem(api.CodeUnknownParameter, request.Clip(name), request.Clip(name)+": unknown query parameter: all that is asked stands in the body")
		}
	}
	if r.Header.Get(IdempotencyKey) != "" {
		return NewProblem(api.CodeInvalidIdempotencyKey, IdempotencyKey,
			"an Idempotency-Key is not taken here, since a verdict holds for its moment only: leave it out, and treat an answer that was lost as admissions that may have been taken")
	}
	return nil
}

// readAllow reads the body into a.body. It takes a place only for a large one: see SmallBody.
func (s *DecisionRoutes) readAllow(a *allowing, w http.ResponseWriter, r *http.Request) error {
	contentType := r.Header.Get("Content-Type")
	if f, err := BodyFormatOf(contentType); err != nil || f != JSONDocument {
		return NewProblem(api.CodeUnsupportedType, "Content-Type", "Content-Type "+request.Clip(strconv.Quote(contentType))+" is not taken: send application/json (curl -H content-type:application/json, or curl --json)")
	}
	limit := min(MaxDecisionBytes, s.maxBody)
	if r.Header.Get("Content-Encoding") == "" && r.ContentLength >= 0 && r.ContentLength <= min(limit, SmallBody) {
		c := PaceOf(r)
		c.Waits(true)
		defer c.Waits(false)
		return a.read(r.Body, limit) // net/http reads no more than the declared length
	}
	leave, err := s.upload(w, r)
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

// read reads from to its end.
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
			return nil
		case err != nil:
			return BrokenBody(err, limit)
		}
	}
}

// answerAllow writes the verdict: 200, or 429 with the time to wait.
func (s *DecisionRoutes) answerAllow(a *allowing, w http.ResponseWriter, r *http.Request) {
	d, h := &a.decision, w.Header()
	setRateLimit(h, d, &a.fields)
	h["Content-Type"] = jsonType
	status := http.StatusOK
	if !d.Allowed {
		status = http.StatusTooManyRequests
		h.Set("Retry-After", ratelimitfields.RetryAfter(d.RetryAfter))
		setDenial(h, d)
	}
	a.answer = appendAnswer(a.answer[:0], d)
	w.WriteHeader(status)
	if _, err := w.Write(a.answer); err != nil {
		s.log.DebugContext(r.Context(), "answer not taken", "path", r.URL.Path, "error", err)
	}
}

// jsonType is shared by answers, which do not write to it.
var jsonType = []string{"application/json"}

const allowDescription = `Takes n admissions of a key, if its limits let it: 200 when it may pass, 429 when not, with the verdict of each limit.

**Which limits.** Without ` + "`limit`" + ` all policies of the server's policy file that are for the key. With the name of one, that one
alone, and the key must fit it. Or a limit of the request's own: ` + "`{\"n\":1000,\"per\":\"1s\",\"burst\":1000,\"algorithm\":\"window\"}`" + `; what a key
has used of it is kept by its ` + "`name`" + `, without one by algorithm and period. A key that no policy is for is allowed, as
` + "`unmatched`" + `.

**Waiting.** Where a policy has ` + "`wait`" + `, an answer may come up to that much later: when the request is to go. It has ` + "`waited_s`" + ` then, and the header field Weir-Waited.

**Costs.** ` + "`\"costs\":{\"tokens\":812}`" + `: what policies with ` + "`cost: tokens`" + ` take in place of n.

**Several.** ` + "`{\"checks\":[{\"key\",\"limit\",\"n\"},...]}`" + `, at most 64, are taken all or none.

**Asking only.** n = 0 tells what is left. ` + "`\"peek\":true`" + ` tells what would be decided for n. Neither takes nor counts anything.

**More than the burst** can never pass: that is the problem ` + "`invalid_count`" + `, not a 429, and no decision that is counted.

Every decision counts as a hit of ` + "`limit:NAME:allowed` or `limit:NAME:denied`" + `. A limit in shadow mode denies nothing: what it would have
denied counts as ` + "`limit:NAME:shadow_denied`" + `.

**Header fields.** RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-11) tell of the limits that are enforced:
q per w seconds, with at most weir-burst at once where that is not q. Retry-After, with a 429, has whole seconds.

**Not again.** A decision is not idempotent: an Idempotency-Key is refused, and an answer that got lost may have taken. Who gets no
answer decides by itself whether to let pass.`

// registerAllow routes POST /v1/allow around huma, which would cost several times what
// the decision does, and describes it by hand.
func (s *DecisionRoutes) registerAllow(doc *API, mux DecisionsMux) {
	mux.HandleFunc("POST /v1/allow", s.allow)
	registry := doc.OpenAPI().Components.Schemas
	body := registry.Schema(reflect.TypeFor[api.AllowObject](), true, "AllowRequest")
	answer := map[string]*huma.MediaType{"application/json": {Schema: SchemaFor[api.AllowAnswer](doc)}}
	responses := doc.Responses(api.CodeEmptyBody, api.CodeInvalidJSON, api.CodeUnknownField, api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidLimit,
		api.CodeInvalidCount, api.CodeInvalidParameter, api.CodeUnknownParameter, api.CodeInvalidIdempotencyKey, api.CodeBodyBroken, api.CodeUnknownLimit, api.CodeOwnerUnreachable,
		api.CodeBodyTimeout, api.CodeBodyTooLarge, api.CodeUnsupportedType, api.CodeUnsupportedEncoding, api.CodeOverloaded, api.CodeClosed)
	responses["200"] = &huma.Response{Description: "The request may pass", Content: answer, Headers: limitFields(false)}
	over := responses["429"] // of the caller's own ceiling, as a problem
	over.Description = "A limit denies the request, and nothing was taken. Or, as a problem: `" + string(api.CodeCeiling) + "`"
	over.Content["application/json"], over.Headers = answer["application/json"], limitFields(true)
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "allow", Method: http.MethodPost, Path: "/v1/allow",
		Summary:     "Ask limits whether a request may pass",
		Description: allowDescription,
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: body, Example: map[string]any{"checks": []any{
				map[string]any{"key": "login:bob"},
				map[string]any{"key": "user:42", "limit": map[string]any{"n": 1000, "per": "1s"}, "n": 2},
			}}},
		}},
		Responses: responses,
	})
}
