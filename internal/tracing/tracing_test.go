package tracing

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

var sampled = map[string][]string{"traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Target{
		"grpc://localhost:4317":                      {Host: "localhost:4317", Plain: true, grpc: true, url: "http://localhost:4317/v1/traces"},
		"grpcs://c:4317?ratio=0.5":                   {Host: "c:4317", ratio: 0.5, grpc: true, url: "https://c:4317/v1/traces"},
		"http://127.0.0.1:4318?keys=true":            {Host: "127.0.0.1:4318", Plain: true, keys: true, url: "http://127.0.0.1:4318/v1/traces"},
		"https://c/otlp/v1/traces?ratio=1&keys=true": {Host: "c", ratio: 1, keys: true, url: "https://c/otlp/v1/traces"},
	} {
		if got, err := ParseTarget(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "localhost:4317", "udp://c:1", "grpc://", "http://u:p@c:1", "http://c#x", "http://c?ratio=2", "http://c?ratio=NaN", "http://c?keys=maybe", "http://c?rate=1"} {
		if got, err := ParseTarget(text); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func open(t *testing.T, url string) *Tracer {
	t.Helper()
	to, err := ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := Open(t.Context(), Config{Target: to, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// A collector that hangs delays no span, and what does not fit is dropped and counted.
func TestACollectorThatHangs(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer s.Close()
	defer close(over)
	tr := open(t, s.URL)
	const extra = 1000
	for range maxWaiting + extra {
		tr.Begin("a", sampled).End()
	}
	if is := tr.Stats(); is.Dropped != extra || is.Waiting != maxWaiting || is.Sent != 0 {
		t.Errorf("%+v", is)
	}
	began := time.Now()
	if err := tr.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it closed in %v", took)
	}
}

// Nobody who is not asked for a trace has a span, and nothing of a nil Span fails.
func TestSampling(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	by := map[string]*Tracer{"": open(t, s.URL), "?ratio=1": open(t, s.URL+"?ratio=1"), "none": nil}
	defer func() { _, _ = by[""].Close(t.Context()), by["?ratio=1"].Close(t.Context()) }()
	for _, c := range []struct {
		parent       string
		plain, ratio bool
	}{
		{"", false, true},
		{"nonsense", false, true},
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", false, false},
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true, true},
	} {
		for options, want := range map[string]bool{"": c.plain, "?ratio=1": c.ratio, "none": false} {
			span := by[options].Begin("a", map[string][]string{"Traceparent": {c.parent}})
			if (span != nil) != want {
				t.Errorf("%q with %q: sampled %v", c.parent, options, span != nil)
			}
			in := From(span.Into(t.Context()))
			if in != span {
				t.Error("the context has another span")
			}
			again := by[""].Begin("b", in.Child("c").Header())
			if again.TraceID() != span.TraceID() {
				t.Errorf("%q goes on as %q", span.TraceID(), again.TraceID())
			}
			in.Past("d", time.Now(), time.Now(), true).Link(in.Call("e"))
			in.Set("f", 1)
			in.Fail("g")
			in.End()
		}
	}
}

// Without a Tracer nothing is allocated.
func TestOffIsFree(t *testing.T) {
	var tr *Tracer
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		s := tr.Begin("a", sampled)
		s.Set("b", "c")
		From(s.Into(ctx)).Child("d").End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
