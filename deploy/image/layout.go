package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// nobody is who runs in the image: not root, and nobody of the host.
const nobody = 65532

// A file is one of the image. One with a mode but no content, whose name ends in a slash,
// is a folder.
type file struct {
	name    string
	content []byte
	mode    int64
	owner   int
}

// rootFiles returns all files of the image except root certificates.
func rootFiles(program []byte) []file {
	return []file{
		{"data/", nil, 0o700, nobody},
		{"tmp/", nil, 0o1777, 0},
		{"etc/", nil, 0o755, 0},
		{"etc/passwd", fmt.Appendf(nil, "root:x:0:0:root:/:/none\nweir:x:%d:%d:weir:/data:/none\n", nobody, nobody), 0o644, 0},
		{"etc/ssl/", nil, 0o755, 0},
		{"etc/ssl/certs/", nil, 0o755, 0},
		{"weir", program, 0o755, 0},
	}
}

// descriptor names a blob by its digest.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// layout is an image layout that grows.
type layout struct{ files []file }

// add puts a blob into the layout.
func (l *layout) add(mediaType string, blob []byte) descriptor {
	sum := fmt.Sprintf("%x", sha256.Sum256(blob))
	l.files = append(l.files, file{"blobs/sha256/" + sum, blob, 0o644, 0})
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(blob)}
}

// addJSON is add of a document.
func (l *layout) addJSON(mediaType string, document any) (descriptor, error) {
	blob, err := json.Marshal(document)
	return l.add(mediaType, blob), err
}

// config is how containers of the image run.
func config(arch, version, diffID string) map[string]any {
	return map[string]any{
		"architecture": arch, "os": "linux",
		"config": map[string]any{
			"User": fmt.Sprintf("%d:%d", nobody, nobody), "WorkingDir": "/data",
			"Entrypoint": []string{"/weir"}, "Cmd": []string{"serve"},
			// In a container its own loopback is out of reach. So that nobody publishes it by
			// mistake, it starts with WEIR_TOKENS and WEIR_TLS_CERT, or WEIR_INSECURE.
			"Env":          []string{"WEIR_DATA=/data", "WEIR_HTTP=0.0.0.0:8080"},
			"ExposedPorts": map[string]any{"8080/tcp": struct{}{}},
			"Volumes":      map[string]any{"/data": struct{}{}},
			"StopSignal":   "SIGTERM",
			"Labels":       map[string]string{"org.opencontainers.image.title": "weir", "org.opencontainers.image.version": version},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{diffID}},
	}
}

// makeImage is the tar of an image layout with one layer.
func makeImage(files []file, arch, version string) ([]byte, error) {
	layer, err := tarOf(files)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(layer); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	var l layout
	of := l.add("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes())
	cfg, err := l.addJSON("application/vnd.oci.image.config.v1+json", config(arch, version, fmt.Sprintf("sha256:%x", sha256.Sum256(layer))))
	if err != nil {
		return nil, err
	}
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest, err := l.addJSON(manifestType, map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": cfg, "layers": []descriptor{of}})
	if err != nil {
		return nil, err
	}
	manifest.Annotations = map[string]string{"org.opencontainers.image.ref.name": version, "io.containerd.image.name": "docker.io/library/weir:" + version}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []descriptor{manifest}})
	if err != nil {
		return nil, err
	}
	head := []file{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644, 0}, {"index.json", index, 0o644, 0},
		{"blobs/", nil, 0o755, 0}, {"blobs/sha256/", nil, 0o755, 0},
	}
	return tarOf(append(head, l.files...))
}

func tarOf(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Uid: f.owner, Gid: f.owner, ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if f.name[len(f.name)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
