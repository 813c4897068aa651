// Command image makes an OCI image out of one static binary, without a Docker daemon: a tar
// of an image layout (OCI image spec 1.1), as `docker load`, `podman load` and `skopeo copy`
// take it. The same binary and version make the same bytes.
package main

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

// maxBinary is what the binary may have, in bytes: a promise of docs/deploy.md.
const maxBinary = 60_000_000

func main() {
	binary := flag.String("weir", "bin/weir", "the static binary")
	version := flag.String("version", "dev", "its version: the tag of the image")
	certificates := flag.String("certificates", "/etc/ssl/certs/ca-certificates.crt", "root certificates to put in, if the file is there")
	out := flag.String("out", "bin/weir-image.tar", "the image")
	flag.Parse()
	if err := run(*binary, *version, *certificates, *out); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(binary, version, certificates, out string) error {
	program, arch, err := readStatic(binary)
	if err != nil {
		return err
	}
	files := rootFiles(program)
	switch roots, err := os.ReadFile(certificates); {
	case err == nil:
		files = append(files, file{"etc/ssl/certs/ca-certificates.crt", roots, 0o644, 0})
	case errors.Is(err, os.ErrNotExist):
		fmt.Fprintf(os.Stderr, "image: no %s: put without root certificates, TLS to others needs ca.crt in --nats-tls or SSL_CERT_FILE\n", certificates)
	default:
		return err
	}
	made, err := makeImage(files, arch, version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, made, 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: weir:%s for linux/%s, %.1f MB; load it with: docker load -i %s\n", out, version, arch, float64(len(made))/1e6, out)
	return nil
}

// readStatic reads a binary that runs by itself.
func readStatic(path string) (program []byte, arch string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, "", fmt.Errorf("%s needs a dynamic loader, which an empty image has not: build it with CGO_ENABLED=0 (make build)", path)
		}
	}
	arch = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[f.Machine]
	if arch == "" {
		arch = strings.ToLower(strings.TrimPrefix(f.Machine.String(), "EM_"))
	}
	if program, err = os.ReadFile(path); err == nil && len(program) > maxBinary {
		err = fmt.Errorf("%s has %d bytes: at most %d are promised", path, len(program), maxBinary)
	}
	return program, arch, err
}
