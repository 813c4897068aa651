package server

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

// newRegistry returns the schemas of the OpenAPI document, with those of package api.
func newRegistry() huma.Registry {
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

// schemaFor returns a reference to the schema of T.
func schemaFor[T any](doc huma.API) *huma.Schema {
	return doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
}
