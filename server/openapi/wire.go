package openapi

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

// The types of package api know no OpenAPI: these say in its document what their own
// spelling of JSON is.
var schemas = map[reflect.Type]reflect.Type{
	reflect.TypeFor[api.Time]():                         reflect.TypeFor[timeSchema](),
	reflect.TypeFor[api.Period]():                       reflect.TypeFor[periodSchema](),
	reflect.TypeFor[api.AllowLimit]():                   reflect.TypeFor[limitSchema](),
	reflect.TypeFor[api.OneOrCounts[api.CountAnswer]](): reflect.TypeFor[oneOrCountsSchema[api.CountAnswer]](),
	reflect.TypeFor[api.OneOrCounts[api.RateAnswer]]():  reflect.TypeFor[oneOrCountsSchema[api.RateAnswer]](),
}

// NewRegistry returns the schemas of the OpenAPI document, with those of package api.
func NewRegistry() huma.Registry {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	for of, is := range schemas {
		registry.RegisterTypeAlias(of, is)
	}
	return registry
}

type timeSchema struct{}

// Schema implements huma.SchemaProvider.
func (timeSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber, Description: "Unix seconds.", Examples: []any{1769860800}}
}

type oneOrCountsSchema[T any] struct{}

// Schema implements huma.SchemaProvider.
func (oneOrCountsSchema[T]) Schema(r huma.Registry) *huma.Schema {
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

// SchemaFor returns a reference to the schema of T.
func SchemaFor[T any](doc *API) *huma.Schema {
	return doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
}

type periodSchema struct{}

// Schema implements huma.SchemaProvider.
func (periodSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeNumber}},
		Description: "The period, 1ms to what the server allows (a day, --max-inline-per), and so is per * burst / n; a number is in seconds.",
		Examples:    []any{"1m"},
	}
}

type limitSchema struct{}

// Schema implements huma.SchemaProvider.
func (limitSchema) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf: []*huma.Schema{
			{Type: huma.TypeString, Description: "The name of a policy."},
			r.Schema(reflect.TypeFor[api.InlineLimit](), true, ""),
		},
		Description: "Which limit; default: all policies that are for the key.",
	}
}
