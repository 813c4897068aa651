package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/service/backend"
)

// historyCollector reads the figures of history once per scrape.
type historyCollector struct {
	figures[backend.HistoryStats]
	lag, unread *prometheus.Desc
}

func newHistoryCollector(stats func() backend.HistoryStats) *historyCollector {
	c := &historyCollector{
		figures: figures[backend.HistoryStats]{stats: stats},
		lag: prometheus.NewDesc("weir_history_lag_seconds",
			"Seconds since when hits may be missing in history. There is none on a node that does not write it, while another does.", nil, nil),
		unread: prometheus.NewDesc("weir_history_unread_messages",
			"Messages of the journal that are not in history yet, where weir_history_lag_seconds is.", nil, nil),
	}
	add := c.add
	add(gauge, "weir_history_writer", "1 on the node that writes history: one of those with the same database.",
		func(s backend.HistoryStats) float64 { return oneIf(s.Writes) })
	add(gauge, "weir_history_failing", "1 while history does not go on: hits are counted, and come into it when its database can be written again.",
		func(s backend.HistoryStats) float64 { return oneIf(s.Failing) })
	add(counter, "weir_history_failures_total", "Attempts to write history that failed; each is retried.",
		func(s backend.HistoryStats) float64 { return float64(s.Failures) })
	add(counter, "weir_history_rows_total", "Rows of hours that this node inserted or added hits to, and of days that it filled in from snapshots.",
		func(s backend.HistoryStats) float64 { return float64(s.Rows) })
	add(gauge, "weir_history_gaps", "Times, noted in weir_gaps, of which hits may be missing: no answer about them is exact.",
		func(s backend.HistoryStats) float64 { return float64(s.Gaps) })
	add(gauge, "weir_history_file_bytes", "Size of the SQLite file without its log. 0 of other databases.",
		func(s backend.HistoryStats) float64 { return float64(s.FileBytes) })
	add(gauge, "weir_history_file_budget_bytes", "Size at which the file loses its oldest hours (--history-disk). 0: there is no bound, or no file.",
		func(s backend.HistoryStats) float64 { return float64(s.FileBudget) })
	return c
}

// Describe implements prometheus.Collector.
func (c *historyCollector) Describe(out chan<- *prometheus.Desc) {
	c.figures.Describe(out)
	out <- c.lag
	out <- c.unread
}

// Collect implements prometheus.Collector. A node that does not write knows only how far history
// was when rows were last written.
func (c *historyCollector) Collect(out chan<- prometheus.Metric) {
	stats := c.stats()
	c.of(stats, out)
	if stats.Known && (stats.Writes || stats.Failing) {
		out <- prometheus.MustNewConstMetric(c.lag, prometheus.GaugeValue, max(time.Since(stats.AsOf).Seconds(), 0))
		out <- prometheus.MustNewConstMetric(c.unread, prometheus.GaugeValue, float64(stats.Unread))
	}
}
