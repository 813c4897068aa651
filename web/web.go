// Package web is the dashboard: pages that run in a browser. `make web` builds them from src. They are embedded, so the
// server needs no other file to serve them.
//
// A page loads only what is embedded here. It runs no inline script and writes no text as HTML. Its
// Content-Security-Policy makes the browser enforce this. A test fails when dist differs from a build of src.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed dist
var dist embed.FS

// Files are the files that the page loads, with their media types. The server serves them at /web/NAME.
var Files = map[string]string{
	"app.js":            "text/javascript; charset=utf-8",
	"app.css":           "text/css; charset=utf-8",
	"font.css":          "text/css; charset=utf-8", // not in app.css: a report has that, and no font
	"inter.woff2":       "font/woff2",
	"inter-license.txt": "text/plain; charset=utf-8",
	"icon.svg":          "image/svg+xml",
}

// policy lets a page load its own script, style, font and picture, and ask its own server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Page serves the dashboard. It holds nothing that is not in the source: it is for everybody.
func Page(w http.ResponseWriter, r *http.Request) {
	serve(w, r, "index.html", "text/html; charset=utf-8")
}

// File returns a handler of one of Files.
func File(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { serve(w, r, name, Files[name]) }
}

// asset is a file as it is sent.
type asset struct {
	plain, zipped []byte
	tag           string
}

// assets are read and compressed once, when the first is asked for.
var assets = sync.OnceValue(func() map[string]asset {
	all := map[string]asset{}
	for _, name := range append(slices.Collect(maps.Keys(Files)), "index.html") {
		plain, err := dist.ReadFile("dist/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		sum := sha256.Sum256(plain)
		zipped := compress(plain)
		if len(zipped) >= len(plain) { // a font is compressed
			zipped = nil
		}
		all[name] = asset{plain, zipped, `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return all
})

func compress(plain []byte) []byte {
	var to bytes.Buffer
	w, err := gzip.NewWriterLevel(&to, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is one
	}
	_, _ = w.Write(plain) // to memory
	_ = w.Close()
	return to.Bytes()
}

func serve(w http.ResponseWriter, r *http.Request, name, contentType string) {
	file, h := assets()[name], w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // ask again, and get 304: a new version is there at once
	h.Set("ETag", file.tag)
	h.Add("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("If-None-Match"), file.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := file.plain
	if file.zipped != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = file.zipped
	}
	_, _ = w.Write(body) // a client that left is not an error of ours
}

// Report writes one page that needs no server: a report of weir replay ("replay") or weir limits replay
// ("limits") with the charts of the dashboard. It loads nothing, and runs no script but its own.
func Report(w io.Writer, kind, version string, made time.Time, report any) error {
	data, err := json.Marshal(map[string]any{"kind": kind, "made": made.Unix(), "version": version, "report": report}) // with < and > escaped
	if err != nil {
		return err
	}
	style, err := dist.ReadFile("dist/app.css")
	if err != nil {
		panic(err) // it is embedded
	}
	script, err := dist.ReadFile("dist/report.js")
	if err != nil {
		panic(err) // it is embedded
	}
	policy := fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; base-uri 'none'; form-action 'none'", sum(script), sum(style))
	var page bytes.Buffer
	fmt.Fprintf(&page, `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="%s">
<title>Weir report</title>
<style>%s</style>
</head>
<body>
<noscript>This report needs JavaScript. weir replay without --html prints it as text.</noscript>
<script type="application/json" id="report">%s</script>
<script>%s</script>
</body>
</html>
`, html.EscapeString(policy), style, data, script)
	_, err = w.Write(page.Bytes())
	return err
}

// sum names a script or style in a Content-Security-Policy.
func sum(content []byte) string {
	is := sha256.Sum256(content)
	return "sha256-" + base64.StdEncoding.EncodeToString(is[:])
}
