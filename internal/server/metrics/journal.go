package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/weir-counter/weir/internal/service/backend"
)

// journalCollector reads the journal's figures once per scrape.
type journalCollector struct {
	figures[backend.JournalStats]
	findings *prometheus.Desc
}

func newJournalCollector(stats func() backend.JournalStats) *journalCollector {
	c := &journalCollector{figures: figures[backend.JournalStats]{stats: stats}}
	add := c.add
	add(counter, "weir_journal_flushes_total", "Flushes that are on disk.",
		func(s backend.JournalStats) float64 { return float64(s.Flushes) })
	add(counter, "weir_journal_bytes_total", "Bytes of flushes that are on disk.",
		func(s backend.JournalStats) float64 { return float64(s.Bytes) })
	add(counter, "weir_journal_failures_total", "Attempts to write a flush that failed; each is retried.",
		func(s backend.JournalStats) float64 { return float64(s.Failures) })
	add(gauge, "weir_journal_failing", "1 while the last attempt to write a flush failed: hits wait, and are refused in the end.",
		func(s backend.JournalStats) float64 { return oneIf(s.Failing) })
	add(gauge, "weir_journal_flush_seconds", "Time that the last flush took, from the engine to the disk.",
		func(s backend.JournalStats) float64 { return s.LastFlush.Seconds() })
	add(counter, "weir_journal_snapshot_rounds_total", "Rounds in which every partition was snapshotted.",
		func(s backend.JournalStats) float64 { return float64(s.Rounds) })
	add(counter, "weir_fresh_rounds_total", "Rounds in which all nodes were asked for their newest hits, for questions with fresh=, which share rounds.",
		func(s backend.JournalStats) float64 { return float64(s.Fresh) })
	add(counter, "weir_fresh_failures_total", "Rounds of these that ended without a fresh answer: some node did not say in time that all it took is in the journal.",
		func(s backend.JournalStats) float64 { return float64(s.NotFresh) })
	add(gauge, "weir_journal_longest_cut_seconds", "Longest time that a partition was locked to take its state.",
		func(s backend.JournalStats) float64 { return s.LongestCut.Seconds() })
	add(gauge, "weir_journal_replayed_flushes", "Flushes that were read back at the start.",
		func(s backend.JournalStats) float64 { return float64(s.Replayed) })
	add(gauge, "weir_journal_kept_bytes", "Bytes of journal that are kept, of all nodes.",
		func(s backend.JournalStats) float64 { return float64(s.Retained) })
	add(counter, "weir_journal_revivals_total", "Times that the embedded server was restarted, after a full disk.",
		func(s backend.JournalStats) float64 { return float64(s.Revivals) })
	add(gauge, "weir_journal_consumers", "JetStream consumers of the journal's stream: Weir makes none, other programs may.",
		func(s backend.JournalStats) float64 { return float64(s.Consumers) })
	add(counter, "weir_journal_holes_total", "Messages of the journal that no replica had.",
		func(s backend.JournalStats) float64 { return float64(s.Holes) })
	add(counter, "weir_journal_repaired_total", "Flushes of other nodes that the journal lost and that they sent again.",
		func(s backend.JournalStats) float64 { return float64(s.Repaired) })
	add(counter, "weir_journal_divergence_total", "Findings of other nodes' hits that are missing here: any is an alarm.",
		func(s backend.JournalStats) float64 { return float64(s.Divergence) })
	c.findings = prometheus.NewDesc("weir_journal_findings",
		"What the audit at the start found: lossy or harmless damage, messages that came twice (repeat), flushes that a crash cut off (unfinished).",
		[]string{"kind"}, nil)
	return c
}

func (c *journalCollector) Describe(out chan<- *prometheus.Desc) {
	c.figures.Describe(out)
	out <- c.findings
}

func (c *journalCollector) Collect(out chan<- prometheus.Metric) {
	stats := c.stats()
	c.of(stats, out)
	for kind, n := range map[string]float64{
		"lossy": float64(stats.Lossy), "harmless": float64(stats.Harmless),
		"repeat": float64(stats.Repeats), "unfinished": float64(stats.Unfinished),
	} {
		out <- prometheus.MustNewConstMetric(c.findings, prometheus.GaugeValue, n, kind)
	}
}

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
