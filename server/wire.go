package server

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
)

// unixTime is a time in an answer: a JSON number of Unix seconds, whole when
// the time is.
type unixTime struct{ time.Time }

func (t unixTime) MarshalJSON() ([]byte, error) { return units.AppendUnix(nil, t.Time), nil }

// Schema implements huma.SchemaProvider.
func (unixTime) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber, Description: "Unix seconds.", Examples: []any{1769860800}}
}

// Bounds is a count as every answer writes it. It is exported, like the other
// embedded types of answers, for huma to see its fields.
type Bounds struct {
	Lower    uint64 `json:"lower" doc:"The true number is not below this."`
	Estimate uint64 `json:"estimate" doc:"The best guess between lower and upper."`
	Upper    uint64 `json:"upper" doc:"The true number is not above this."`
	Exact    bool   `json:"exact" doc:"lower = upper, and no node is late: the true number."`
}

// boundsOf is of what is known: hits of a node that is late may be missing.
func boundsOf(c weir.Count, fresh Fresh) Bounds {
	return Bounds{Lower: c.Lower, Estimate: c.Estimate, Upper: c.Upper, Exact: c.Exact() && len(fresh.Late) == 0}
}

// oneOrCounts is one answer as an object of its own, or several as
// {"counts":[...]}.
type oneOrCounts[T any] []T

func (a oneOrCounts[T]) MarshalJSON() ([]byte, error) {
	if len(a) == 1 {
		return json.Marshal(a[0])
	}
	return json.Marshal(struct {
		Counts []T `json:"counts"`
	}{a})
}

// Schema implements huma.SchemaProvider.
func (oneOrCounts[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		r.Schema(reflect.TypeFor[T](), true, ""),
		{
			Type: huma.TypeObject, Required: []string{"counts"},
			Properties: map[string]*huma.Schema{
				"counts": {Type: huma.TypeArray, Items: r.Schema(reflect.TypeFor[T](), true, "")},
			},
			Description: "When key or window is repeated: for each key, each window.",
		},
	}}
}

// schemaFor returns a reference to the schema of T.
func schemaFor[T any](api huma.API) *huma.Schema {
	return api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
}
