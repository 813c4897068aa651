package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The picture has what the page says: the longer of two bars has the full length, and the shorter one is seen.
func TestPicture(t *testing.T) {
	r, err := parse(strings.NewReader(`BenchmarkHot/design=weir.Counter.HitAt/goroutines=2-2 1 10 ns/op
BenchmarkHot/design=ring/goroutines=2-2 1 20 ns/op
BenchmarkListeners/task=ask-for-the-last-5-minutes/server=weir/command=COUNT-5m/pipeline=16 1 1 cpu-us/command
BenchmarkListeners/task=ask-for-the-last-5-minutes/server=redis/command=EVAL:-sum-of-a-hash-of-300-seconds/pipeline=16 1 1234 cpu-us/command
`))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := write(&b, r); err != nil {
		t.Fatal(err)
	}
	page, picture := filepath.Join(t.TempDir(), "page.md"), filepath.Join(t.TempDir(), "picture.svg")
	if err := os.WriteFile(page, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := drawPicture(page, picture); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`width="220"`, `width="440"`, `width="2"`, ">10.0 ns<", ">1,234 µs<"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	if got := strings.Count(string(svg), ">Weir<"); got != 2 {
		t.Errorf("%d pairs, want those that were measured", got)
	}
	if err := xml.Unmarshal(svg, new(struct{})); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", glanceHead, glanceHead + "| a | b |\n", glanceHead + "| a | 0 ns | 1 ns | c |\n"} {
		if _, err := readGlance(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}
