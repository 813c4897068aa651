package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The program is no larger than docs/deploy.md says. It is linked from the packages that tests have compiled, so with
// cgo where that is on, which changes little.
func TestSizeOfWeir(t *testing.T) {
	t.Parallel()
	weir := filepath.Join(t.TempDir(), "weir")
	if said, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", weir, "../../cmd/weir").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	made, err := os.Stat(weir)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MB", float64(made.Size())/1e6)
	if made.Size() > maxBinary {
		t.Errorf("the program has %d bytes, and %d are promised: `make image` refuses it", made.Size(), maxBinary)
	}
}
