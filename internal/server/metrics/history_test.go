package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/service/backend"
)

// The node that writes history says how late it is, and so do those that can't tell who writes.
func TestHistoryFigures(t *testing.T) {
	t.Parallel()
	stats := backend.HistoryStats{Known: true, AsOf: time.Now().Add(-time.Hour), Unread: 7, Writes: true, Gaps: 2, Rows: 99, Failures: 3, FileBytes: 8192, FileBudget: 1 << 20}
	c := newHistoryCollector(func() backend.HistoryStats { return stats })
	text := scrape(t, c)
	for _, want := range []string{
		"weir_history_lag_seconds 360", "weir_history_unread_messages 7\n", "weir_history_writer 1\n", "weir_history_failing 0\n", "weir_history_gaps 2\n",
		"weir_history_rows_total 99\n", "weir_history_failures_total 3\n", "weir_history_file_bytes 8192\n", "weir_history_file_budget_bytes 1.048576e+06\n",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	const lag = "\nweir_history_lag_seconds "
	if stats.Writes = false; strings.Contains(scrape(t, c), lag) {
		t.Error("a node that another writes for knows how late history is")
	}
	if stats.Failing = true; !strings.Contains(scrape(t, c), lag) {
		t.Error("nobody says how late history is while its database is away")
	}
	if stats.Known = false; strings.Contains(scrape(t, c), lag) {
		t.Error("how late history is was known before its database was ever there")
	}
}
