package decide

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
)

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
func (s *Routes) registerAllow(doc *openapi.API, mux Mux) {
	mux.HandleFunc("POST /v1/allow", s.allow)
	registry := doc.OpenAPI().Components.Schemas
	body := registry.Schema(reflect.TypeFor[api.AllowObject](), true, "AllowRequest")
	answer := map[string]*huma.MediaType{"application/json": {Schema: openapi.SchemaFor[api.AllowAnswer](doc)}}
	responses := doc.Responses(api.CodeEmptyBody, api.CodeInvalidJSON, api.CodeUnknownField, api.CodeMissingKey, api.CodeInvalidKey, api.CodeInvalidLimit,
		api.CodeInvalidCount, api.CodeInvalidParameter, api.CodeUnknownParameter, api.CodeInvalidIdempotencyKey, api.CodeBodyBroken, api.CodeUnknownLimit,
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
