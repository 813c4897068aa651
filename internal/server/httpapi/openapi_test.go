package httpapi

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

type openAPI struct {
	OpenAPI string
	Info    struct{ Version string }
	Paths   map[string]map[string]struct {
		OperationID string
		Parameters  []struct {
			Name     string
			Required bool
		}
		RequestBody struct{ Content map[string]any }
		Responses   map[string]struct {
			Description string
			Content     map[string]struct{ Schema map[string]any }
		}
	}
	Components struct {
		Schemas map[string]struct {
			Properties map[string]any
			Required   []string
		}
	}
}

func TestOpenAPI(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{Service: service.Config{Version: "v9"}})
	r := a.get("/openapi.json")
	var doc openAPI
	if err := json.Unmarshal([]byte(r.body), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || doc.Info.Version != "v9" {
		t.Errorf("openapi %q, version %q", doc.OpenAPI, doc.Info.Version)
	}
	var operations []string
	for path, methods := range doc.Paths {
		for method, op := range methods {
			operations = append(operations, strings.ToUpper(method)+" "+path)
			for status, answer := range op.Responses {
				if status == "429" {
					continue // a denial is an answer, and no problem
				}
				if _, has := answer.Content[api.ProblemType]; has != (status >= "400") {
					t.Errorf("%s %s: a problem for %s: %v", method, path, status, has)
				}
			}
			if _, has := op.Responses["503"]; !has {
				t.Errorf("%s %s does not say that it may answer 503", method, path)
			}
		}
	}
	slices.Sort(operations)
	want := []string{"DELETE /v1/bans", "DELETE /v1/cluster/nodes/{node}", "DELETE /v1/keys", "DELETE /v1/keys/{key}", "DELETE /v1/limits/inline", "DELETE /v1/limits/{name}/keys/{key}", "DELETE /v1/permits/{id}", "DELETE /v1/policies/{name}", "DELETE /v1/regions/{region}", "GET /v1/backup", "GET /v1/bans", "GET /v1/cluster", "GET /v1/count", "GET /v1/denials/{id}", "GET /v1/export", "GET /v1/forward-auth", "GET /v1/keys", "GET /v1/limits", "GET /v1/limits/who", "GET /v1/limits/{name}/keys", "GET /v1/policies", "GET /v1/policies/{name}", "GET /v1/rate", "GET /v1/regions", "GET /v1/regions/feed", "GET /v1/series", "GET /v1/stats", "GET /v1/top", "GET /v1/views/key", "GET /v1/views/limits", "GET /v1/views/log", "GET /v1/views/nodes", "GET /v1/views/overview", "GET /v1/views/site", "POST /v1/allow", "POST /v1/bans", "POST /v1/grants", "POST /v1/hits", "POST /v1/permits", "POST /v1/permits/{id}/heartbeat", "POST /v1/refund", "POST /v1/reserve", "POST /v1/restore", "POST /v1/settle", "POST /v1/web", "PUT /v1/policies/{name}"}
	if !slices.Equal(operations, want) {
		t.Errorf("operations: got %q, want %q", operations, want)
	}
	for _, contentType := range strings.Split(AcceptedTypes, ", ") {
		if doc.Paths["/v1/hits"]["post"].RequestBody.Content[contentType] == nil {
			t.Errorf("POST /v1/hits does not describe %s", contentType)
		}
	}
	used := map[string]bool{}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(r.body, -1) {
		if _, has := doc.Components.Schemas[ref[1]]; !has {
			t.Errorf("a reference to %s leads nowhere", ref[1])
		}
		used[ref[1]] = true
	}
	for name := range doc.Components.Schemas {
		if !used[name] {
			t.Errorf("nothing refers to %s", name)
		}
	}
}

// The documented fields are those that answers have.
func TestSchemasMatchAnswers(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	var doc openAPI
	a.getInto("/openapi.json", &doc)
	a.post("a\nb")
	for schema, r := range map[string]reply{
		"HitsAnswer":    a.do(http.MethodPost, "/v1/hits", "text/plain", "a"),
		"CountAnswer":   a.get("/v1/count?key=a"),
		"RateAnswer":    a.get("/v1/rate?key=a"),
		"SeriesAnswer":  a.get("/v1/series?key=a"),
		"TopAnswer":     a.get("/v1/top"),
		"KeysAnswer":    a.get("/v1/keys?limit=1"),
		"StatsAnswer":   a.get("/v1/stats"),
		"ClusterAnswer": a.get("/v1/cluster"),
		"JournalStats":  durableStats(t),
		"AllowAnswer":   a.allow(`{"key":"a","limit":{"n":1,"per":"1m"}}`),
		"LimitsAnswer":  a.get("/v1/limits"),
		"BansAnswer":    a.get("/v1/bans"),
		"ForgetAnswer":  a.do(http.MethodDelete, "/v1/limits/inline", "", ""),
		"ResetAnswer":   a.do(http.MethodDelete, "/v1/limits/inline/window/1m/keys/a", "", ""),
		"GrantAnswer":   a.do(http.MethodPost, "/v1/grants?limit=inline/window/1m&key=a&n=1&for=1h", "", ""),
		"ReserveAnswer": a.do(http.MethodPost, "/v1/reserve?id=r", "application/json", `{"key":"r","limit":{"n":9,"per":"1m"}}`),
		"RefundAnswer":  a.do(http.MethodPost, "/v1/refund", "application/json", `{"key":"a","limit":{"n":1,"per":"1m"}}`),
		"Problem":       a.do(http.MethodPost, "/v1/hits", "text/plain", "a 0"),
	} {
		described, has := doc.Components.Schemas[schema]
		if !has {
			t.Errorf("no schema %s", schema)
			continue
		}
		var answer map[string]any
		if err := json.Unmarshal([]byte(r.body), &answer); err != nil {
			t.Fatal(err)
		}
		for field := range answer {
			if described.Properties[field] == nil {
				t.Errorf("%s: the answer has %s, the schema does not", schema, field)
			}
		}
		for _, field := range described.Required {
			if _, has := answer[field]; !has {
				t.Errorf("%s: the schema requires %s, the answer has it not: %s", schema, field, r.body)
			}
		}
	}
}

// The page loads nothing from anywhere else.
func TestDocsPage(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	for path, contentType := range map[string]string{"/docs": "text/html; charset=utf-8", "/docs/page.js": "text/javascript; charset=utf-8", "/docs/page.css": "text/css; charset=utf-8", "/": "text/html; charset=utf-8", "/docs/": "text/html; charset=utf-8"} {
		r := a.get(path)
		if r.status != 200 || r.header.Get("Content-Type") != contentType || !strings.HasPrefix(r.header.Get("Content-Security-Policy"), "default-src 'self';") {
			t.Errorf("GET %s: %d %v", path, r.status, r.header)
		}
		if strings.Contains(r.body, "//cdn") || strings.Contains(r.body, "http:") || strings.Contains(r.body, "https:") {
			t.Errorf("GET %s refers to another site", path)
		}
	}
}
