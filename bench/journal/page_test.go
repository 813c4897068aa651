package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const made = `BenchmarkPost/keys=zipf1M/ephemeral 10000000 5429451 hits/s 142.0 cpu-ns/hit
BenchmarkPost/keys=zipf1M/cost 1 34.3 lost-hits-% 63.4 more-cpu-%
BenchmarkPost/keys=zipf1M/cost 1 -3.5 lost-hits-% 1.0 more-cpu-%
BenchmarkPost/keys=zipf1M/cost 1 8.1 lost-hits-% 12.0 more-cpu-%
BenchmarkStart/journal=4MiB 1 0.09 s 155788 keys
`

func TestPage(t *testing.T) {
	page := pageOf("in a test", made)
	for _, want := range []string{
		"| Post/keys=zipf1M/ephemeral | 5429451 hits/s, 142 cpu-ns/hit |  |\n",
		"| Post/keys=zipf1M/cost | 8.1 lost-hits-% (-3.5..34.3), 12 more-cpu-% (1..63.4) | at most 10 lost-hits-%, at most 10 more-cpu-% |\n",
		"| Start/journal=4MiB | 0.09 s, 155788 keys |  |\n",
		"make bench-journal`. in a test.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

// All of it runs to its end and leaves a page and nothing else, on very little.
func TestQuick(t *testing.T) {
	build := func(dir, what, name string) string {
		name = filepath.Join(t.TempDir(), name)
		command := exec.CommandContext(t.Context(), "go", "build", "-o", name, what)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return name
	}
	weir, self := build("../..", "./cmd/weir", "weir"), build(".", ".", "journal")
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	command := exec.CommandContext(t.Context(), self, "-quick", "-weir", weir, "-page", page)
	command.Env = append(os.Environ(), "TMPDIR="+dir)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| Post/keys=hot/cost |", " p99-ms", "| Flush/hits=1000/s2 |", "| Snapshot/keys=20k |", "| Durable/writers=64 |", "| Start/keys=20k |", "| Start/journal=4MiB |"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "weir-bench-*")); err != nil || len(left) > 0 {
		t.Errorf("left %v (%v)", left, err)
	}
}

func TestOnlyKnown(t *testing.T) {
	b := &bench{ctx: context.Background(), scale: quick}
	if err := b.run("", "replay,nothing"); err == nil || !strings.Contains(err.Error(), `no measurement "nothing": there are throughput, durable`) {
		t.Errorf("got %v", err)
	}
}
