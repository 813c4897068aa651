package httpapi

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
)

// This part is the routes of HTTP by which limits are decided: POST and GET /v1/allow, and /v1/forward-auth, and given back, POST /v1/refund, or reserved, POST /v1/reserve, with what the
// OpenAPI document says of them.
//
// Invariant: a decision by POST allocates nothing of its own but for what net/http needs: its memory is pooled. A large
// body takes a place before it is read, a small one does not.
//
// Neighbours: package server identifies callers and measures routes; package body parses; package service decides.

// DecisionsConfig is what Routes are made of.
type DecisionsConfig struct {
	Service *service.Service
	Log     *slog.Logger

	// Caller is who a request comes from.
	Caller func(*http.Request) access.Caller

	// Upload takes a place for a body that arrives while it is read; leave gives it back. It fails with the error to answer.
	Upload func(http.ResponseWriter, *http.Request) (leave func(), err error)
}

// DecisionRoutes answer requests for decisions. They are safe for many goroutines.
type DecisionRoutes struct {
	service *service.Service
	log     *slog.Logger
	caller  func(*http.Request) access.Caller
	upload  func(http.ResponseWriter, *http.Request) (leave func(), err error)
	maxBody int64
	states  sync.Pool // of *allowing
}

// NewDecisions returns Routes that are not registered yet.
func NewDecisions(cfg DecisionsConfig) *DecisionRoutes {
	s := &DecisionRoutes{service: cfg.Service, log: cfg.Log, caller: cfg.Caller, upload: cfg.Upload, maxBody: cfg.Service.Config().MaxBodyBytes}
	s.states.New = newAllowing
	return s
}

// DecisionsMux is where handlers are registered, each under its pattern.
type DecisionsMux interface {
	HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request))
}

// Register routes all of them, and describes them in doc.
func (s *DecisionRoutes) Register(doc *API, mux DecisionsMux) {
	s.registerAllow(doc, mux)
	s.registerAllowQuery(doc, mux)
	s.registerRefund(doc, mux)
	s.registerReserve(doc, mux)
	s.registerForwardAuth(doc, mux)
}

// appendAnswer writes a decision as AllowAnswer has it.
func appendAnswer(b []byte, d *admit.Decision) []byte {
	b = append(b, `{"allowed":`...)
	b = strconv.AppendBool(b, d.Allowed)
	if d.Unmatched {
		b = append(b, `,"unmatched":true`...)
	}
	b = appendRetryAfter(b, d.RetryAfter)
	if len(d.Denial) > 0 {
		b = append(b, `,"denial":"`...)
		b = append(b, d.Denial...) // has no character to escape
		b = append(b, '"')
	}
	if d.Waited > 0 {
		b = append(b, `,"waited_s":`...)
		b = appendSeconds(b, d.Waited)
	}
	b = append(b, `,"limits":[`...)
	for i := range d.Results {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendState(b, &d.Results[i])
	}
	return append(b, "]}\n"...)
}

func appendState(b []byte, r *admit.Result) []byte {
	b = append(b, `{"name":"`...)
	b = append(b, r.Name...) // has no character to escape
	b = append(b, `","key":`...)
	b = appendJSONString(b, r.Key)
	b = append(b, `,"mode":"`...)
	b = append(b, r.Mode.String()...)
	b = append(b, `","allowed":`...)
	b = strconv.AppendBool(b, r.Allowed)
	if r.Never {
		b = append(b, `,"never":true`...)
	}
	if r.Banned {
		b = append(b, `,"banned":true`...)
	}
	if r.Warning {
		b = append(b, `,"warning":true`...)
	}
	if r.Away != "" {
		b = append(b, `,"away":"`...)
		b = append(b, r.Away...)
		b = append(b, '"')
	}
	if r.NoPart {
		b = append(b, `,"no_part":true`...)
	}
	if r.Others > 0 {
		b = append(b, `,"others":`...)
		b = strconv.AppendUint(b, r.Others, 10)
	}
	b = appendLate(b, r.Late)
	b = append(b, `,"n":`...)
	b = strconv.AppendUint(b, r.N, 10)
	b = append(b, `,"limit":`...)
	b = strconv.AppendUint(b, r.Limit.N, 10)
	b = append(b, `,"per_s":`...)
	b = units.AppendUnix(b, time.Unix(0, int64(r.Limit.Per))) // not rounded: a limit is what it is
	b = append(b, `,"burst":`...)
	b = strconv.AppendUint(b, r.Limit.Burst, 10)
	if by := r.Limit.Calendar.String(); by != "" {
		b = append(b, `,"calendar":`...)
		b = appendJSONString(b, by)
	}
	b = append(b, `,"remaining":`...)
	b = strconv.AppendUint(b, r.Remaining, 10)
	b = appendRetryAfter(b, r.RetryAfter)
	b = append(b, `,"reset_s":`...)
	b = appendSeconds(b, r.Reset)
	return append(b, '}')
}

// appendLate writes the names of regions and their nodes, if there are any.
func appendLate(b []byte, late []string) []byte {
	for i, name := range late {
		if i == 0 {
			b = append(b, `,"late":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendJSONString(b, name)
	}
	if len(late) > 0 {
		b = append(b, ']')
	}
	return b
}

func appendRetryAfter(b []byte, d time.Duration) []byte {
	if d <= 0 {
		return b
	}
	b = append(b, `,"retry_after_s":`...)
	return appendSeconds(b, d)
}

// appendSeconds writes seconds with the decimals that they have, rounded up to
// milliseconds: who waits for so long has waited long enough.
func appendSeconds(b []byte, d time.Duration) []byte {
	return units.AppendUnix(b, time.Unix(0, int64(limits.Milliseconds(d))))
}

// appendJSONString writes s, which is UTF-8, as a string of JSON.
func appendJSONString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			text, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string has no way to fail
			}
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// setRateLimit tells of the limits that are enforced, with the memory of list.
func setRateLimit(h http.Header, d *admit.Decision, list *ratelimitfields.List) {
	list.Reset()
	for i := range d.Results {
		if r := &d.Results[i]; r.Mode == policy.Enforce {
			list.Add(ratelimitfields.Member{
				Name: r.Name, Key: r.Key, Quota: r.Limit.N, Window: r.Limit.Per, Burst: r.Limit.Burst, Remaining: r.Remaining, Reset: r.Reset,
			})
		}
	}
	list.Write(h, d.RetryAfter)
	setWarning(h, d)
	if d.Waited > 0 {
		h.Set(waitedHeader, string(appendSeconds(nil, d.Waited)))
	}
}

// denialHeader has the ID of a denial.
const denialHeader = "Weir-Denial"

// setDenial names a denial.
func setDenial(h http.Header, d *admit.Decision) {
	if len(d.Denial) > 0 {
		h.Set(denialHeader, string(d.Denial))
	}
}

// waitedHeader has for how many seconds a request waited for its turn.
const waitedHeader = "Weir-Waited"

// warningHeader names the limits that warn.
const warningHeader = "Weir-Warning"

// setWarning names the limits that warn.
func setWarning(h http.Header, d *admit.Decision) {
	for i := range d.Results {
		if r := &d.Results[i]; r.Warning && r.Mode == policy.Enforce {
			h.Add(warningHeader, r.Name)
		}
	}
}

const reserveDescription = `Takes n admissions for what a request may need, as POST /v1/allow does, for the same body; POST /v1/settle says later how many it did need, and the rest
is given back. What is not settled within ttl stays used, or is given back (` + "`unsettled=returned`" + `). With an ` + "`id`" + ` of the caller's the request may be sent
again: one that is known takes nothing more, and is refused with other content. At most 100,000 reservations are not over, counted for each limit.`

func (s *DecisionRoutes) registerReserve(doc *API, mux DecisionsMux) {
	mux.HandleFunc("POST /v1/reserve", s.reserve)
	answer := map[string]*huma.MediaType{"application/json": {Schema: SchemaFor[api.ReserveAnswer](doc)}}
	responses := doc.Responses(api.CodeEmptyBody, api.CodeInvalidJSON, api.CodeUnknownField, api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidLimit,
		api.CodeInvalidCount, api.CodeInvalidWindow, api.CodeKeyReused, api.CodeInvalidParameter, api.CodeUnknownParameter, api.CodeBodyBroken, api.CodeUnknownLimit, api.CodeNotHeld, api.CodeOwnerUnreachable,
		api.CodeBodyTimeout, api.CodeBodyTooLarge, api.CodeUnsupportedType, api.CodeUnsupportedEncoding, api.CodeOverloaded, api.CodeClosed)
	responses["200"] = &huma.Response{Description: "The request may pass", Content: answer, Headers: limitFields(false)}
	over := responses["429"] // of the caller's own ceiling, as a problem
	over.Description = "A limit denies the request, and nothing was taken. Or, as a problem: `" + string(api.CodeCeiling) + "`"
	over.Content["application/json"], over.Headers = answer["application/json"], limitFields(true)
	text := func(name, description string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: description, Schema: &huma.Schema{Type: "string"}}
	}
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "reserve", Method: http.MethodPost, Path: "/v1/reserve", Summary: "Take what a request may need, to be settled later", Description: reserveDescription,
		Parameters: []*huma.Param{
			text("ttl", "Within which it is settled, up to 24h. Default 1m."), text("id", "1 to 64 bytes, another for each reservation. Default: one is made."),
			text("unsettled", "used (default): what is not settled stays used; returned: it is given back, five seconds after ttl."),
		},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.AllowObject](), true, "AllowRequest"), Example: map[string]any{"key": "team:7", "n": 1000}},
		}},
		Responses: responses,
	})
}

// reserve is POST /v1/reserve.
func (s *DecisionRoutes) reserve(w http.ResponseWriter, r *http.Request) {
	a := s.states.Get().(*allowing)
	id, known, err := s.reserved(a, w, r)
	if err != nil {
		p := ProblemOf(err)
		advertiseJSON(w.Header(), p)
		p.Write(w)
		s.states.Put(a)
		return
	}
	d, h := &a.decision, w.Header()
	status := http.StatusOK
	if known {
		*d = admit.Decision{Allowed: true}
	}
	setRateLimit(h, d, &a.fields)
	h["Content-Type"] = jsonType
	if !d.Allowed {
		status = http.StatusTooManyRequests
		h.Set("Retry-After", ratelimitfields.RetryAfter(d.RetryAfter))
		setDenial(h, d)
	}
	b := append(a.answer[:0], '{')
	if id != "" {
		b = append(appendJSONString(append(b, `"id":`...), id), ',')
	}
	if known {
		b = append(strconv.AppendBool(append(b, `"known":`...), true), ',')
	}
	head := len(b)
	a.answer = appendAnswer(b, d)
	a.answer = append(a.answer[:head], a.answer[head+1:]...) // without its brace
	w.WriteHeader(status)
	if _, err := w.Write(a.answer); err != nil {
		s.log.DebugContext(r.Context(), "answer not taken", "path", r.URL.Path, "error", err)
	}
	s.states.Put(a)
}

// reserved reads the request, and reserves.
func (s *DecisionRoutes) reserved(a *allowing, w http.ResponseWriter, r *http.Request) (id string, known bool, err error) {
	values := r.URL.Query()
	of := limits.Reservation{ID: values.Get("id")}
	for name, list := range values {
		switch {
		case name == "ttl":
			if of.TTL, err = request.ParseWindow("ttl", list[0]); err != nil {
				return "", false, err
			}
		case name == "unsettled" && (list[0] == "used" || list[0] == "returned"):
			of.GiveBack = list[0] == "returned"
		case name == "unsettled":
			return "", false, NewProblem(api.CodeInvalidParameter, "unsettled", "unsettled of "+request.Clip(list[0])+": must be used or returned")
		case name != "id":
			return "", false, NewProblem(api.CodeUnknownParameter, request.Clip(name), request.Clip(name)+": unknown query parameter: there are id, ttl and unsettled")
		}
	}
	if err := s.readAllow(a, w, r); err != nil {
		return "", false, err
	}
	if err := a.parser.Parse(a.body); err != nil {
		return "", false, err
	}
	if a.parser.Peek {
		return "", false, NewProblem(api.CodeInvalidParameter, "peek", "peek: a reservation takes; ask /v1/allow")
	}
	return s.service.Reserve(s.caller(r), a.parser.Requests, of, &a.decision)
}

const refundDescription = `Gives back what POST /v1/allow took, for the same body: of each limit its n. ` + "`taken`" + ` is when it was taken, so that the limit holds for what was
really used, whatever was admitted since; without it the newest admissions are given back. What has left the window is not there any more, and a bucket gives back
only what it has not filled since: ` + "`refunded`" + ` says how many more would be allowed. With an Idempotency-Key it may be sent again for ten minutes: what was given back is not
given back anew, and the answer is the first one.`

func (s *DecisionRoutes) registerRefund(doc *API, mux DecisionsMux) {
	mux.HandleFunc("POST /v1/refund", s.refund)
	responses := doc.Responses(api.CodeEmptyBody, api.CodeInvalidJSON, api.CodeUnknownField, api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidLimit,
		api.CodeInvalidCount, api.CodeInvalidTime, api.CodeInvalidParameter, api.CodeUnknownParameter, api.CodeBodyBroken, api.CodeUnknownLimit, api.CodeNotHeld,
		api.CodeInvalidIdempotencyKey, api.CodeKeyReused, api.CodeOnceFull, api.CodeBodyTimeout, api.CodeBodyTooLarge, api.CodeUnsupportedType, api.CodeUnsupportedEncoding, api.CodeOverloaded, api.CodeClosed)
	responses["200"] = &huma.Response{Description: "What came of each limit", Content: map[string]*huma.MediaType{"application/json": {Schema: SchemaFor[api.RefundAnswer](doc)}}}
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "refund", Method: http.MethodPost, Path: "/v1/refund", Summary: "Give admissions back", Description: refundDescription,
		Parameters: []*huma.Param{{Name: "taken", In: "query", Description: "When they were taken: RFC 3339 or Unix seconds. Default: last.", Schema: &huma.Schema{Type: "string"}}, {
			Name: IdempotencyKey, In: "header", Description: "A name for this request that no other has, such as a UUID, to send it again by.", Schema: &huma.Schema{Type: "string"},
		}},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.AllowObject](), true, "AllowRequest"), Example: map[string]any{"key": "team:7", "n": 700}},
		}},
		Responses: responses,
	})
}

// refund is POST /v1/refund.
func (s *DecisionRoutes) refund(w http.ResponseWriter, r *http.Request) {
	answer, err := s.refunded(w, r)
	if err != nil {
		p := ProblemOf(err)
		advertiseJSON(w.Header(), p)
		p.Write(w)
		return
	}
	w.Header()["Content-Type"] = jsonType
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.log.DebugContext(r.Context(), "answer not taken", "path", r.URL.Path, "error", err)
	}
}

func (s *DecisionRoutes) refunded(w http.ResponseWriter, r *http.Request) (api.RefundAnswer, error) {
	values := r.URL.Query()
	taken, err := request.ParseTime("taken", values.Get("taken"))
	if err != nil {
		return api.RefundAnswer{}, err
	}
	for name := range values {
		if name != "taken" {
			return api.RefundAnswer{}, NewProblem(api.CodeUnknownParameter, request.Clip(name), request.Clip(name)+": unknown query parameter: there is taken")
		}
	}
	again, bad := ReadKey(r.Header.Values(IdempotencyKey))
	if bad != nil {
		return api.RefundAnswer{}, bad
	}
	a := s.states.Get().(*allowing)
	defer s.states.Put(a)
	if err := s.readAllow(a, w, r); err != nil {
		return api.RefundAnswer{}, err
	}
	if err := a.parser.Parse(a.body); err != nil {
		return api.RefundAnswer{}, err
	}
	made, err := s.service.Refund(r.Context(), s.caller(r), a.parser.Requests, taken, again)
	answer := api.RefundAnswer{Refunded: limits.Refunded(made), Limits: make([]api.LimitRefund, len(made))}
	for i, m := range made {
		answer.Limits[i] = api.LimitRefund{Name: m.Name, Key: m.Key, Refunded: m.Freed, Remaining: m.Remaining}
	}
	return answer, err
}
