package decide

import (
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

const reserveDescription = `Takes n admissions for what a request may need, as POST /v1/allow does, for the same body; POST /v1/settle says later how many it did need, and the rest
is given back. What is not settled within ttl stays used, or is given back (` + "`unsettled=returned`" + `). With an ` + "`id`" + ` of the caller's the request may be sent
again: one that is known takes nothing more, and is refused with other content. At most 100,000 reservations are not over, counted for each limit.`

func (s *Routes) registerReserve(doc *openapi.API, mux Mux) {
	mux.HandleFunc("POST /v1/reserve", s.reserve)
	answer := map[string]*huma.MediaType{"application/json": {Schema: openapi.SchemaFor[api.ReserveAnswer](doc)}}
	responses := doc.Responses(api.CodeEmptyBody, api.CodeInvalidJSON, api.CodeUnknownField, api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidLimit,
		api.CodeInvalidCount, api.CodeInvalidWindow, api.CodeKeyReused, api.CodeInvalidParameter, api.CodeUnknownParameter, api.CodeBodyBroken, api.CodeUnknownLimit, api.CodeNotHeld,
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
func (s *Routes) reserve(w http.ResponseWriter, r *http.Request) {
	a := s.states.Get().(*allowing)
	id, known, err := s.reserved(a, w, r)
	if err != nil {
		p := problem.Of(err)
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
func (s *Routes) reserved(a *allowing, w http.ResponseWriter, r *http.Request) (id string, known bool, err error) {
	values := r.URL.Query()
	of := service.Reservation{ID: values.Get("id")}
	for name, list := range values {
		switch {
		case name == "ttl":
			if of.TTL, err = service.ParseWindow("ttl", list[0]); err != nil {
				return "", false, err
			}
		case name == "unsettled" && (list[0] == "used" || list[0] == "returned"):
			of.GiveBack = list[0] == "returned"
		case name == "unsettled":
			return "", false, problem.New(api.CodeInvalidParameter, "unsettled", "unsettled of "+service.Clip(list[0])+": must be used or returned")
		case name != "id":
			return "", false, problem.New(api.CodeUnknownParameter, service.Clip(name), service.Clip(name)+": unknown query parameter: there are id, ttl and unsettled")
		}
	}
	if err := s.readAllow(a, w, r); err != nil {
		return "", false, err
	}
	if err := a.parser.Parse(a.body); err != nil {
		return "", false, err
	}
	if a.parser.Peek {
		return "", false, problem.New(api.CodeInvalidParameter, "peek", "peek: a reservation takes; ask /v1/allow")
	}
	return s.service.Reserve(s.caller(r), a.parser.Requests, of, &a.decision)
}
