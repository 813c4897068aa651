package decide

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/forwarded"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/origin"
)

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

// registerForwardAuth routes origin.ForwardAuthPath for any method, and describes GET.
func (s *Routes) registerForwardAuth(doc *openapi.API, mux Mux) {
	mux.HandleFunc(origin.ForwardAuthPath, s.forwardAuth)
	text := &huma.Schema{Type: huma.TypeString}
	responses := doc.Responses(api.CodeInternal, api.CodeOverloaded, api.CodeClosed)
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
		{Name: "hops", In: "query", Description: "How many proxies of yours a request comes through, the asking one among them: which address of X-Forwarded-For is the client's, from the right.", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0), Maximum: new(float64(forwarded.MaxHops)), Default: 1}},
	}, limitQueryParams()...)
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "forwardAuth", Method: http.MethodGet, Path: origin.ForwardAuthPath,
		Summary:     "Tell a proxy whether a request may pass",
		Description: forwardAuthDescription,
		Parameters: append(params,
			field(forwarded.Mark, "What the client asks for. Only who sends it is taken for a proxy.", true),
			field("X-Forwarded-For", "Of (client).", false), field("X-Forwarded-Host", "Of (host).", false), field("X-Forwarded-Method", "Of (method).", false),
			field(TokenHeader, "Of a server with a tokens file.", false)),
		Responses: responses,
	})
}
