package openapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

// EventStream is the media type of server-sent events.
const EventStream = "text/event-stream"

// View registers an operation whose answer is an A, or a stream of them for a caller that asks for one: send writes
// it, and all that it fails with.
func View[I, A any](doc *API, op huma.Operation, codes []api.Code, send func(huma.Context, *I)) {
	op.Metadata = map[string]any{logOf: doc.log}
	op.Middlewares = huma.Middlewares{checkParams}
	op.Responses = doc.Responses(append(codes, api.CodeInvalidParameter, api.CodeOverloaded)...)
	schema := SchemaFor[A](doc)
	op.Responses["200"] = &huma.Response{
		Description: "The view; for `Accept: text/event-stream` a stream of events, `view` with the view as it is now, and `problem` with why there is none.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: schema}, EventStream: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}
	huma.Register(doc.API, op, func(_ context.Context, in *I) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(ctx huma.Context) { send(ctx, in) }}, nil
	})
}
