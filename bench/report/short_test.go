package main

import (
	"strings"
	"testing"
)

// The longer of two bars has the full length, and the shorter one at least a block.
func TestShort(t *testing.T) {
	r, err := parse(strings.NewReader(`BenchmarkHot/design=weir.Counter.HitAt/goroutines=2-2 1 10 ns/op
BenchmarkHot/design=ring/goroutines=2-2 1 20 ns/op
BenchmarkMemory/traffic=sparse/design=weir 1 1 B/key
BenchmarkMemory/traffic=sparse/design=deque 1 1000 B/key
`))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	writeShort(&b, r)
	for _, want := range []string{" " + strings.Repeat("█", 15) + " 10.0\n", " " + strings.Repeat("█", 30) + " 20.0\n", " █ 1.00\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	if got := strings.Count(b.String(), "Weir"); got != 2 {
		t.Errorf("%d pairs, want those that were measured", got)
	}
}
