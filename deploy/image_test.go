// Package deploy tests the script that makes an image.
package deploy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

type descriptor struct {
	Digest string
	Size   int
}

func untar(t *testing.T, from io.Reader) (contents map[string]string, headers map[string]*tar.Header) {
	t.Helper()
	contents, headers = map[string]string{}, map[string]*tar.Header{}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return contents, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		contents[h.Name], headers[h.Name] = string(b), h
	}
}

// program builds a static binary, or with cgo one that is not.
func program(t *testing.T, cgo string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "program"), source)
	build.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	return filepath.Join(dir, "program")
}

func makeImage(t *testing.T, binary string) ([]byte, string, error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.tar")
	said, err := exec.CommandContext(t.Context(), "./image.sh", binary, "v1", out).CombinedOutput()
	made, _ := os.ReadFile(out) // none if it failed
	return made, string(said), err
}

// A reader of the image gets from the index to the program by digests that are right.
func TestImage(t *testing.T) {
	t.Parallel()
	binary := program(t, "0")
	made, said, err := makeImage(t, binary)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if again, said, err := makeImage(t, binary); err != nil || !bytes.Equal(made, again) {
		t.Errorf("another image of the same: %v\n%s", err, said)
	}
	files, _ := untar(t, bytes.NewReader(made))
	if files["oci-layout"] != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout: %s", files["oci-layout"])
	}
	blob := func(d descriptor) string {
		content, ok := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if !ok || len(content) != d.Size || fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))) != d.Digest {
			t.Fatalf("no blob for %+v", d)
		}
		return content
	}
	parse := func(text string, into any) {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	var index struct{ Manifests []descriptor }
	parse(files["index.json"], &index)
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	parse(blob(index.Manifests[0]), &manifest)
	var cfg struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	parse(blob(manifest.Config), &cfg)
	z, err := gzip.NewReader(strings.NewReader(blob(manifest.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); cfg.RootFS.DiffIDs[0] != got {
		t.Errorf("diff id %s, want %s", cfg.RootFS.DiffIDs[0], got)
	}
	want, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	root, headers := untar(t, bytes.NewReader(layer))
	if root["weir"] != string(want) || headers["weir"].Mode != 0o755 || headers["weir"].Uid != 0 || headers["data/"].Uid != 65532 || headers["data/"].Mode != 0o700 ||
		headers["etc/passwd"].Mode != 0o644 || headers["tmp/"].Mode != 0o1777 {
		t.Errorf("the layer: %v", headers)
	}
	if cfg.Config.User != "65532:65532" || cfg.Config.Entrypoint[0] != "/weir" || cfg.Architecture != runtime.GOARCH {
		t.Errorf("config %+v", cfg)
	}
}

// A program that may need a dynamic loader is refused.
func TestNotStatic(t *testing.T) {
	t.Parallel()
	if _, said, err := makeImage(t, program(t, "1")); err == nil || !strings.Contains(said, "CGO_ENABLED=0") {
		t.Errorf("%v\n%s", err, said)
	}
}

// The program is no larger than docs/deploy.md says. It is linked from the packages that tests have compiled, so with
// cgo where that is on, which changes little.
func TestSizeOfWeir(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("image.sh")
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.ParseInt(regexp.MustCompile(`(?m)^most=(\d+)`).FindStringSubmatch(string(script))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	weir := filepath.Join(t.TempDir(), "weir")
	if said, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", weir, "../cmd/weir").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	made, err := os.Stat(weir)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB", float64(made.Size())/1e6)
	if made.Size() > most {
		t.Errorf("the program has %d bytes, and %d are promised: `make image` refuses it", made.Size(), most)
	}
}
