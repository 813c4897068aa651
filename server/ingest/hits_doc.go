package ingest

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/body"
	"github.com/weir-counter/weir/server/openapi"
)

const hitsDescription = `Three ways to write the same hits:

- text/plain: one hit per line, ` + "`key [n [at]]`" + `, apart by spaces or tabs. Keys hold no white space or control characters.
- application/x-ndjson: one object ` + "`{\"key\",\"n\",\"at\"}`" + ` per line.
- application/json: one object, or an array of objects.

n defaults to 1, at to the time of arrival. Bodies may be compressed (Content-Encoding gzip or zstd). A key is 1 to 512
bytes of UTF-8. Without a Content-Type, or with the one that curl -d sets, the first byte decides between text and JSON.
With curl use --data-binary: -d strips newlines. Keys that begin with ` + "`limit:`" + ` are those that limits count their decisions under;
hits of them are rejected with ` + "`reserved_key`" + `.

Hits count once the whole body is there. One that breaks off, has more bytes than ` + "`--max-body-bytes`" + ` or more lines than
` + "`--max-batch`" + ` (413) counts nothing. A line that is not understood is listed under ` + "`rejected`" + ` and never loses its
neighbours; the answer is a failure only when nothing could be counted, or when the JSON of an array breaks off:
then the same members say what was counted before. Text that begins with ` + "`{` or `[`" + ` is taken for JSON that was
declared wrongly, and refused: send keys that begin so as JSON.

**On disk.** With ` + "`durable=true`" + ` the answer comes once the hits are on disk; many requests share one write. While
hits do not reach the disk it is refused at once, and counts nothing (503, ` + "`journal_failing`" + `). Without it a crash may lose at most one flush interval (` + "`weir serve --flush-every`" + `, by default 100 ms).

**Again.** An answer may get lost on the way. A request with an ` + "`Idempotency-Key`" + ` may be sent again with the same key
and body for ten minutes, also across a restart of the server: it counts nothing more, and gets the first answer with the
header ` + "`Idempotency-Replayed: true`" + `. A request of which nothing was counted is not remembered.

**Overload.** When the disk is slow or full, hits wait in memory. Once that buffer is full, they are refused with the
code ` + "`overloaded`" + `: as 503, or when a part of the body was counted, with ` + "`retry_from`" + `, the first line to send
again, under another key.`

// hitObject is a hit as the OpenAPI document describes it; jsonParser reads it.
type hitObject struct {
	_   struct{} `additionalProperties:"false"`
	Key string   `json:"key" minLength:"1" maxLength:"512" example:"url:/home" doc:"What is counted; 1 to 512 bytes."`
	N   uint64   `json:"n,omitempty" minimum:"1" maximum:"1099511627776" default:"1" doc:"How many hits."`
	At  hitAt    `json:"at,omitempty"`
}

type hitAt struct{}

// Schema implements huma.SchemaProvider.
func (hitAt) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeNumber}, {Type: huma.TypeString, Format: "date-time"}},
		Description: "When: Unix seconds or RFC 3339; default now.",
		Examples:    []any{1769860800},
	}
}

// Register routes POST /v1/hits around huma, whose handlers see a body only
// once it is whole, and describes it by hand.
func (s *Routes) Register(doc *openapi.API, mux Mux) {
	mux.HandleFunc("POST /v1/hits", s.takeHits)
	registry := doc.OpenAPI().Components.Schemas
	one := registry.Schema(reflect.TypeFor[hitObject](), true, "Hit")
	many := &huma.Schema{Type: huma.TypeArray, Items: one}
	lines := &huma.Schema{Type: huma.TypeString}
	responses := doc.Responses(api.CodeNothingCounted, api.CodeEmptyBody, api.CodeBodyBroken, api.CodeTooLate, api.CodeBodyTimeout,
		api.CodeBodyTooLarge, api.CodeTooManyLines, api.CodeUnsupportedType, api.CodeUnsupportedEncoding, api.CodeOverloaded, api.CodeClosed,
		api.CodeInvalidParameter, api.CodeUnknownParameter, api.CodeInvalidIdempotencyKey, api.CodeKeyReused, api.CodeOnceFull, api.CodeEphemeral, api.CodeNotDurable, api.CodeJournalFailing, api.CodeDurableFull)
	responses["200"] = &huma.Response{
		Description: "At least one hit was counted",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: openapi.SchemaFor[api.HitsAnswer](doc)}},
		Headers: map[string]*huma.Param{ReplayedHeader: {
			Description: "true: these hits were counted before, under the same Idempotency-Key.",
			Schema:      &huma.Schema{Type: huma.TypeBoolean},
		}},
	}
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "hit", Method: http.MethodPost, Path: "/v1/hits",
		Summary:     "Count hits",
		Description: hitsDescription,
		Parameters: []*huma.Param{{
			Name: durableParam, In: "query", Description: "Answer once the hits are on disk.",
			Schema: &huma.Schema{Type: huma.TypeBoolean, Default: false},
		}, {
			Name: body.IdempotencyKey, In: "header", Description: "A name for this request that no other has, such as a UUID, to send it again by.",
			Schema: &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(weir.MaxOnceKeyBytes)},
		}},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"text/plain":           {Schema: lines, Example: "url:/home\nurl:/about 3\nurl:/home 1 1769860800\n"},
			"application/x-ndjson": {Schema: lines, Example: "{\"key\":\"url:/home\"}\n{\"key\":\"url:/about\",\"n\":3}\n"},
			"application/json":     {Schema: &huma.Schema{OneOf: []*huma.Schema{one, many}}, Example: []any{map[string]any{"key": "url:/home", "n": 3}}},
		}},
		Responses: responses,
	})
}
