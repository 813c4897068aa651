package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/weir-counter/weir/internal/history"
)

// Each figure of history is a metric, and one that is not known has no series.
func TestHistoryFigures(t *testing.T) {
	t.Parallel()
	lag, unread := 3600.5, uint64(7)
	stats := history.Stats{Lag: &lag, Unread: &unread, Writes: true, Gaps: 2, Rows: 99, Failures: 3, FileBytes: 8192, FileBudget: 1 << 20}
	c := figures(func() any { return stats })
	text := scrape(t, c)
	for _, want := range []string{
		"weir_history_lag_seconds 3600.5\n", "weir_history_unread_messages 7\n", "weir_history_writer 1\n", "weir_history_failing 0\n", "weir_history_gaps 2\n",
		"weir_history_rows_total 99\n", "weir_history_failures_total 3\n", "weir_history_file_bytes 8192\n", "weir_history_file_budget_bytes 1.048576e+06\n",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if stats.Lag = nil; strings.Contains(scrape(t, c), "\nweir_history_lag_seconds ") {
		t.Error("a figure that is not known has a series")
	}
}

// scrape is what Prometheus reads of a collector.
func scrape(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	return w.Body.String()
}
