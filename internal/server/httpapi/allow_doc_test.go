package httpapi

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
)

// The schema of POST /v1/allow takes what the server takes, with all bodies of docs/limits.md,
// and refuses what it does not know.
func TestAllowSchema(t *testing.T) {
	registry := NewRegistry()
	schema := registry.Schema(reflect.TypeFor[api.AllowObject](), true, "AllowRequest")
	page, err := os.ReadFile("../../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	type example struct {
		text string
		good bool
	}
	bodies := []example{
		{`{"key":"user:42"}`, true},
		{`{"key":"user:42","limit":"login","n":0,"peek":true}`, true},
		{`{"key":"user:42","limit":{"n":1,"per":60}}`, true},
		{`{"key":"user:42","limit":{"name":"own","n":1,"per":"1m","burst":3,"algorithm":"gcra"}}`, true},
		{`{"key":"user:42","limit":{"n":1,"per":true}}`, false},
		{`{"key":"user:42","limit":{"n":1}}`, false},
		{`{"key":"user:42","limt":"login"}`, false},
		{`{"checks":[{"key":"a"},{"key":"b","n":2}],"peek":false}`, true},
		{`{"checks":[{"n":2}]}`, false},
		{`{"key":"a","costs":{"tokens":812,"images":0}}`, true},
		{`{"checks":[{"key":"a","costs":{"tokens":1}}]}`, true},
		{`{"key":"a","costs":{"tokens":-1}}`, false},
		{`{"key":"a","costs":7}`, false},
		{`{"checks":[]}`, false},
		{`{"key":"a","n":-1}`, false},
	}
	found := regexp.MustCompile(`/v1/allow --json '([^']+)'`).FindAllSubmatch(page, -1)
	if len(found) < 4 {
		t.Fatalf("%d bodies in docs/limits.md", len(found))
	}
	for _, match := range found {
		bodies = append(bodies, example{string(match[1]), true})
	}
	for _, b := range bodies {
		var value any
		if err := json.Unmarshal([]byte(b.text), &value); err != nil {
			t.Fatal(err)
		}
		var result huma.ValidateResult
		huma.Validate(registry, schema, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, value, &result)
		if good := len(result.Errors) == 0; good != b.good {
			t.Errorf("%s: the schema says %v, want %v: %v", b.text, good, b.good, result.Errors)
		}
		parser := NewAllowParser()
		if p := parser.Parse([]byte(b.text)); (p == nil) != b.good {
			t.Errorf("%s: the server says %v", b.text, p)
		}
	}
}
