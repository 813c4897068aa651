package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/engine"
)

func TestMetrics(t *testing.T) {
	a := newTestAPI(t, engine.Config{Memory: 1 << 26}, options{})
	if r := a.get("/metrics"); strings.Contains(r.body, "weir_http_request_duration_seconds_bucket") {
		t.Error("a route has series before its first request")
	}
	a.post("a 3\nb 2\nb 4 1769860000\nc 9 1000\n")
	a.do(http.MethodPost, "/v1/hits", "text/plain", "x 0\ny 1 1769869999")
	a.get("/v1/count?key=a")
	a.get("/v1/count")
	a.get("/v1/count?key=b&nonsense=1")
	a.get("/random/path/1")
	r := a.get("/metrics")
	for _, want := range []string{
		"weir_hits_total 9", "weir_late_hits_total 4", "weir_too_late_hits_total 9", "weir_too_far_ahead_hits_total 1", "weir_rejected_lines_total 2",
		"weir_keys 2", "weir_evicted_keys_total 0", "weir_memory_budget_bytes 6.7108864e+07", "weir_http_in_flight_requests 1",
		`weir_http_request_duration_seconds_count{route="GET /v1/count",status="2xx"} 1`,
		`weir_http_request_duration_seconds_count{route="GET /v1/count",status="4xx"} 2`,
		`weir_http_request_duration_seconds_count{route="POST /v1/hits",status="4xx"} 1`,
		`weir_http_request_duration_seconds_count{route="/",status="4xx"} 1`,
	} {
		if !strings.Contains(r.body, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	for _, prefix := range []string{"weir_memory_bytes ", "go_goroutines ", "process_cpu_seconds_total "} {
		if !strings.Contains(r.body, "\n"+prefix) {
			t.Errorf("no %s", prefix)
		}
	}
	if strings.Contains(r.body, "random") || strings.Contains(r.body, `"a"`) {
		t.Error("a label holds what a client chose")
	}
}

// Two servers in one process keep their metrics apart.
func TestTwoServers(t *testing.T) {
	a, b := newTestAPI(t, engine.Config{}, options{}), newTestAPI(t, engine.Config{}, options{})
	a.post("a")
	if !strings.Contains(a.get("/metrics").body, "weir_hits_total 1\n") || !strings.Contains(b.get("/metrics").body, "weir_hits_total 0\n") {
		t.Error("the servers share their metrics")
	}
}
