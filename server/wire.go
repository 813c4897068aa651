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
	Lower    uint64  `json:"lower" doc:"The true number is not below this."`
	Estimate uint64  `json:"estimate" doc:"The best guess between lower and upper."`
	Upper    *uint64 `json:"upper" nullable:"true" doc:"The true number of the hits taken until as_of is not above this. null: no upper bound is known, for a node is late, or the window reaches back beyond the retention."`
	Exact    bool    `json:"exact" doc:"lower = upper: the true number of the hits that were taken until as_of."`
}

// boundsOf is of what is known: how many hits of a node that is late are missing,
// nobody knows.
func boundsOf(c weir.Count, fresh Fresh) Bounds {
	b := Bounds{Lower: c.Lower, Estimate: c.Estimate}
	if len(fresh.Late) == 0 && c.HasUpper() {
		b.Upper, b.Exact = &c.Upper, c.Exact()
	}
	return b
}

// PerSecond is a rate with its bounds.
type PerSecond struct {
	Lower    float64  `json:"lower"`
	Estimate float64  `json:"estimate"`
	Upper    *float64 `json:"upper" nullable:"true" doc:"null: no upper bound is known."`
}

// per is the count per second.
func (b Bounds) per(seconds int64) PerSecond {
	w := float64(seconds)
	r := PerSecond{Lower: float64(b.Lower) / w, Estimate: float64(b.Estimate) / w}
	if b.Upper != nil {
		upper := float64(*b.Upper) / w
		r.Upper = &upper
	}
	return r
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
