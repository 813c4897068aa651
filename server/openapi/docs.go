package openapi

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// docsFiles is a page of our own, because the usual ones load their scripts
// from the internet.
//
//go:embed docs/index.html docs/page.js docs/page.css
var docsFiles embed.FS

// RegisterDocs serves the OpenAPI document and the page that shows it. It
// comes after all operations: the document is written once, here.
func (doc *API) RegisterDocs(mux humago.Mux) error {
	for _, name := range []string{"ErrorModel", "ErrorDetail"} {
		delete(doc.OpenAPI().Components.Schemas.Map(), name) // huma's errors, which hookErrors replaces
	}
	document, err := json.Marshal(doc.OpenAPI())
	if err != nil {
		return fmt.Errorf("write the OpenAPI document: %w", err)
	}
	mux.HandleFunc("GET /openapi.json", serveBytes("application/openapi+json", document))
	for pattern, file := range map[string]struct{ name, contentType string }{
		"GET /docs":          {"docs/index.html", "text/html; charset=utf-8"},
		"GET /docs/page.js":  {"docs/page.js", "text/javascript; charset=utf-8"},
		"GET /docs/page.css": {"docs/page.css", "text/css; charset=utf-8"},
	} {
		content, err := docsFiles.ReadFile(file.name)
		if err != nil {
			return err
		}
		mux.HandleFunc(pattern, serveBytes(file.contentType, content))
	}
	mux.HandleFunc("GET /docs/{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/docs", http.StatusFound) })
	return nil
}

func serveBytes(contentType string, content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(content) // a client that left is not an error of ours
	}
}
