package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

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

// A reader of the image gets from the index to the program by digests that are right.
func TestImage(t *testing.T) {
	made, err := makeImage(rootFiles([]byte("program")), "amd64", "v1")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := makeImage(rootFiles([]byte("program")), "amd64", "v1"); err != nil || !bytes.Equal(made, again) {
		t.Errorf("another image of the same: %v", err)
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
		Config struct {
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
	root, headers := untar(t, bytes.NewReader(layer))
	if root["weir"] != "program" || headers["weir"].Mode != 0o755 || headers["data/"].Uid != nobody || headers["data/"].Mode != 0o700 {
		t.Errorf("the layer: %v", headers)
	}
	if cfg.Config.User != "65532:65532" || cfg.Config.Entrypoint[0] != "/weir" {
		t.Errorf("config %+v", cfg)
	}
}
