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
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// Files are the files that the page loads, with their media types. The server serves them at /web/NAME.
var Files = map[string]string{
	"app.js":   "text/javascript; charset=utf-8",
	"app.css":  "text/css; charset=utf-8",
	"icon.svg": "image/svg+xml",
}

// policy lets a page load its own script, style and picture, and ask its own server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
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
	for _, name := range []string{"index.html", "app.js", "app.css", "icon.svg"} {
		plain, err := dist.ReadFile("dist/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		sum := sha256.Sum256(plain)
		all[name] = asset{plain, compress(plain), `"` + hex.EncodeToString(sum[:8]) + `"`}
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
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = file.zipped
	}
	_, _ = w.Write(body) // a client that left is not an error of ours
}
