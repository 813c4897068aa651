package web

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sources are what dist is built from.
func sources(t *testing.T) []string {
	t.Helper()
	list := []string{"build.mjs", "package-lock.json", "package.json", "tsconfig.json"}
	err := filepath.WalkDir("src", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// What is embedded was built from the sources that are here: build.mjs writes their sum beside it.
func TestBuiltFromTheseSources(t *testing.T) {
	sum := sha256.New()
	for _, path := range sources(t) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
	}
	built, err := dist.ReadFile("dist/sources.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if want := hex.EncodeToString(sum.Sum(nil)); strings.TrimSpace(string(built)) != want {
		t.Error("web/dist is older than web/src: run make web, and commit what it writes")
	}
}

func TestSize(t *testing.T) {
	total := 0
	for name, file := range assets() {
		t.Logf("%s: %d bytes, %d compressed", name, len(file.plain), len(file.zipped))
		total += min(len(file.plain), cmp.Or(len(file.zipped), len(file.plain)))
	}
	if total > 120<<10 {
		t.Errorf("%d bytes compressed, of 120 KiB at most", total)
	}
}

// The page names no file that is not served, and no other server.
func TestPage(t *testing.T) {
	page := string(assets()["index.html"].plain)
	for name := range Files {
		if !strings.Contains(page, `"web/`+name+`"`) {
			t.Errorf("the page does not load %s, relative to where it is", name)
		}
	}
	for _, bad := range []string{"//", "<style", "style=", "onclick"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
}

func TestServe(t *testing.T) {
	for name, headers := range map[string]http.Header{
		"plain": {}, "zipped": {"Accept-Encoding": {"gzip, br"}}, "known": {"If-None-Match": {assets()["app.js"].tag}},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/web/app.js", nil)
		r.Header = headers
		File("app.js")(w, r)
		h := w.Header()
		if h.Get("Content-Type") != Files["app.js"] || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", name, h)
		}
		if zipped := h.Get("Content-Encoding") == "gzip"; zipped != (name == "zipped") {
			t.Errorf("%s: compressed: %v", name, zipped)
		}
		if empty := w.Body.Len() == 0; empty != (name == "known") || empty != (w.Code == http.StatusNotModified) {
			t.Errorf("%s: %d, %d bytes", name, w.Code, w.Body.Len())
		}
	}
}
