package main

import (
	"slices"
	"strings"
	"testing"
)

const lines = `date: 2026-01-31 12:00 UTC
processor: Test CPU, 2 cores
BenchmarkHot/design=atomic.Int64/goroutines=1-2	100	4.0 ns/op
BenchmarkHot/design=atomic.Int64/goroutines=2-2	100	10.0 ns/op
BenchmarkHot/design=weir.Counter.HitAt/goroutines=1-2	100	12.0 ns/op
BenchmarkHot/design=weir.Counter.HitAt/goroutines=2-2	100	5.0 ns/op
BenchmarkHot/design=ring/goroutines=2-2	100	40.0 ns/op
BenchmarkHot/design=deque/goroutines=2-2	100	20.0 ns/op
PASS
BenchmarkHot/design=atomic.Int64/goroutines=1-2	100	5.0 ns/op
BenchmarkHot/design=atomic.Int64/goroutines=2-2	100	20.0 ns/op
BenchmarkHot/design=weir.Counter.HitAt/goroutines=1-2	100	11.0 ns/op
BenchmarkHot/design=weir.Counter.HitAt/goroutines=2-2	100	6.0 ns/op
BenchmarkHot/design=ring/goroutines=2-2	100	40.0 ns/op
BenchmarkHot/design=deque/goroutines=2-2	100	30.0 ns/op
BenchmarkTenMillion/keys=10000000 100000000 250 ns/op 1610612736 resident-bytes 2147483648 peak-bytes 1073741824 engine-bytes
BenchmarkError/trace=generated/order=in-time/design=weir/window=1h 446 12 largest-hits 1.5 mean-hits 5747 truth-hits
BenchmarkMemory/traffic=dense/design=weir 16 16384.0 B/key
BenchmarkKeyedAllow/requests=10/design=weir-gcra/goroutines=2-2	100	100.0 ns/op
BenchmarkKeyedAllow/requests=10/design=go-limiter/goroutines=2-2	100	200.0 ns/op
BenchmarkKeyedAllow/requests=10/design=ulule-limiter/goroutines=2-2	100	300.0 ns/op
BenchmarkLimitMemory/requests=10/design=weir-gcra 1000000 100.0 B/key
BenchmarkLimitMemory/requests=10/design=go-limiter 1000000 125.0 B/key
BenchmarkAllow/ask=named/server=empty-handler 1000 20.0 cpu-us/decision
BenchmarkAllow/ask=named/server=weir-serve 1000 40.0 cpu-us/decision
BenchmarkReplay/program=weir-replay 1000000 500.0 ns/op 450.0 cpu-ns/op
BenchmarkReplay/program=awk 1000000 250.0 ns/op 240.0 cpu-ns/op
`

func parsed(t *testing.T) *results {
	t.Helper()
	r, err := parse(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParse(t *testing.T) {
	r := parsed(t)
	if got := r.get("Hot/design=atomic.Int64/goroutines=2", "ns/op"); !slices.Equal(got, sample{10, 20}) {
		t.Errorf("%v", got)
	}
	if r.machine["processor"] != "Test CPU, 2 cores" {
		t.Errorf("%v", r.machine)
	}
	if _, err := parse(strings.NewReader("PASS\n")); err == nil {
		t.Error("no error without lines")
	}
}

func TestSample(t *testing.T) {
	for _, test := range []struct {
		s    sample
		want string
	}{
		{nil, "—"},
		{sample{9, 10, 11}, "10.0"},
		{sample{0}, "0"},
		{sample{0.0456}, "0.046"},
		{sample{1, 2, 9}, "2.00\u00a0±350%"},
		{sample{1_000, 3_000_000}, "1,500,500\u00a0±100%"},
		{sample{10, 30}.over(sample{10, 15}), "1.50\u00a0±33%"},
		{sample{10, 30, 20}.over(sample{10, 30}), "1.00\u00a0±50%"},
		{sample{10}.over(nil), "—"},
	} {
		if got := test.s.String(); got != test.want {
			t.Errorf("%v: %s, want %s", []float64(test.s), got, test.want)
		}
	}
}

func TestPage(t *testing.T) {
	var b strings.Builder
	if err := write(&b, parsed(t)); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		", Test CPU, 2 cores.",
		"1 goroutine, to an atomic add | 2.60\u00a0±15% | ≤ 2.00 |",
		"goaccess to `weir replay` | — | ≥ 10.0 |",
		"decision over HTTP, named, to an empty handler | 2.00 | ≤ 1.50 |",
		"| **weir**, gcra | 100 | — |",
		"7 of 34 reached; not these:",
		"2.00 GiB resident at the peak, 1.50 GiB at the end, of which the engine counts 1.00 GiB. A hit takes 250 ns",
		"| **weir** | 12 |",
		"goaccess was not measured",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for line := range strings.Lines(page) {
		if strings.Contains(line, "<no value>") || strings.Contains(line, "NaN") {
			t.Errorf("broken: %s", line)
		}
	}
}
