package decide

import (
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/body"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

const refundDescription = `Gives back what POST /v1/allow took, for the same body: of each limit its n. ` + "`taken`" + ` is when it was taken, so that the limit holds for what was
really used, whatever was admitted since; without it the newest admissions are given back. What has left the window is not there any more, and a bucket gives back
only what it has not filled since: ` + "`refunded`" + ` says how many more would be allowed. With an Idempotency-Key it may be sent again for ten minutes: what was given back is not
given back anew, and the answer is the first one.`

func (s *Routes) registerRefund(doc *openapi.API, mux Mux) {
	mux.HandleFunc("POST /v1/refund", s.refund)
	responses := doc.Responses(api.CodeEmptyBody, api.CodeInvalidJSON, api.CodeUnknownField, api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidLimit,
		api.CodeInvalidCount, api.CodeInvalidTime, api.CodeInvalidParameter, api.CodeUnknownParameter, api.CodeBodyBroken, api.CodeUnknownLimit, api.CodeNotHeld,
		api.CodeInvalidIdempotencyKey, api.CodeKeyReused, api.CodeOnceFull, api.CodeBodyTimeout, api.CodeBodyTooLarge, api.CodeUnsupportedType, api.CodeUnsupportedEncoding, api.CodeOverloaded, api.CodeClosed)
	responses["200"] = &huma.Response{Description: "What came of each limit", Content: map[string]*huma.MediaType{"application/json": {Schema: openapi.SchemaFor[api.RefundAnswer](doc)}}}
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "refund", Method: http.MethodPost, Path: "/v1/refund", Summary: "Give admissions back", Description: refundDescription,
		Parameters: []*huma.Param{{Name: "taken", In: "query", Description: "When they were taken: RFC 3339 or Unix seconds. Default: last.", Schema: &huma.Schema{Type: "string"}}, {
			Name: body.IdempotencyKey, In: "header", Description: "A name for this request that no other has, such as a UUID, to send it again by.", Schema: &huma.Schema{Type: "string"},
		}},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.AllowObject](), true, "AllowRequest"), Example: map[string]any{"key": "team:7", "n": 700}},
		}},
		Responses: responses,
	})
}

// refund is POST /v1/refund.
func (s *Routes) refund(w http.ResponseWriter, r *http.Request) {
	answer, err := s.refunded(w, r)
	if err != nil {
		p := problem.Of(err)
		advertiseJSON(w.Header(), p)
		p.Write(w)
		return
	}
	w.Header()["Content-Type"] = jsonType
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.log.DebugContext(r.Context(), "answer not taken", "path", r.URL.Path, "error", err)
	}
}

func (s *Routes) refunded(w http.ResponseWriter, r *http.Request) (api.RefundAnswer, error) {
	values := r.URL.Query()
	taken, err := service.ParseTime("taken", values.Get("taken"))
	if err != nil {
		return api.RefundAnswer{}, err
	}
	for name := range values {
		if name != "taken" {
			return api.RefundAnswer{}, problem.New(api.CodeUnknownParameter, service.Clip(name), service.Clip(name)+": unknown query parameter: there is taken")
		}
	}
	again, bad := body.ReadKey(r.Header.Values(body.IdempotencyKey))
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
	answer := api.RefundAnswer{Refunded: service.Refunded(made), Limits: make([]api.LimitRefund, len(made))}
	for i, m := range made {
		answer.Limits[i] = api.LimitRefund{Name: m.Name, Key: m.Key, Refunded: m.Freed, Remaining: m.Remaining}
	}
	return answer, err
}
