package server

import "github.com/prometheus/client_golang/prometheus"

// journalCollector reads the journal's figures once per scrape.
type journalCollector struct {
	stats    func() JournalStats
	values   []journalValue
	findings *prometheus.Desc
}

type journalValue struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(JournalStats) float64
}

func newJournalCollector(stats func() JournalStats) *journalCollector {
	c := &journalCollector{stats: stats}
	add := func(kind prometheus.ValueType, name, help string, read func(JournalStats) float64) {
		c.values = append(c.values, journalValue{prometheus.NewDesc(name, help, nil, nil), kind, read})
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	add(counter, "weir_journal_flushes_total", "Flushes that are on disk.",
		func(s JournalStats) float64 { return float64(s.Flushes) })
	add(counter, "weir_journal_bytes_total", "Bytes of flushes that are on disk.",
		func(s JournalStats) float64 { return float64(s.Bytes) })
	add(counter, "weir_journal_failures_total", "Attempts to write a flush that failed; each is retried.",
		func(s JournalStats) float64 { return float64(s.Failures) })
	add(gauge, "weir_journal_failing", "1 while the last attempt to write a flush failed: hits wait, and are refused in the end.",
		func(s JournalStats) float64 { return oneIf(s.Failing) })
	add(gauge, "weir_journal_flush_seconds", "Time that the last flush took, from the engine to the disk.",
		func(s JournalStats) float64 { return s.LastFlush.Seconds() })
	add(counter, "weir_journal_snapshot_rounds_total", "Rounds in which every partition was snapshotted.",
		func(s JournalStats) float64 { return float64(s.Rounds) })
	add(gauge, "weir_journal_longest_cut_seconds", "Longest time that a partition was locked to take its state.",
		func(s JournalStats) float64 { return s.LongestCut.Seconds() })
	add(gauge, "weir_journal_replayed_flushes", "Flushes that were read back at the start.",
		func(s JournalStats) float64 { return float64(s.Replayed) })
	add(gauge, "weir_journal_kept_bytes", "Bytes of journal that are kept, of all nodes.",
		func(s JournalStats) float64 { return float64(s.Kept) })
	add(counter, "weir_journal_revivals_total", "Times that the embedded server was restarted, after a full disk.",
		func(s JournalStats) float64 { return float64(s.Revivals) })
	add(counter, "weir_journal_holes_total", "Messages of the journal that no replica had.",
		func(s JournalStats) float64 { return float64(s.Holes) })
	add(counter, "weir_journal_repaired_total", "Flushes of other nodes that the journal lost and that they sent again.",
		func(s JournalStats) float64 { return float64(s.Repaired) })
	add(counter, "weir_journal_divergence_total", "Findings of other nodes' hits that are missing here: any is an alarm.",
		func(s JournalStats) float64 { return float64(s.Divergence) })
	c.findings = prometheus.NewDesc("weir_journal_findings",
		"What the audit at the start found: lossy or harmless damage, messages that came twice (repeat), flushes that a crash cut off (unfinished).",
		[]string{"kind"}, nil)
	return c
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (c *journalCollector) Describe(out chan<- *prometheus.Desc) {
	for _, v := range c.values {
		out <- v.desc
	}
	out <- c.findings
}

func (c *journalCollector) Collect(out chan<- prometheus.Metric) {
	stats := c.stats()
	for _, v := range c.values {
		out <- prometheus.MustNewConstMetric(v.desc, v.kind, v.read(stats))
	}
	for kind, n := range map[string]float64{
		"lossy": float64(stats.Lossy), "harmless": float64(stats.Harmless),
		"repeat": float64(stats.Repeats), "unfinished": float64(stats.Unfinished),
	} {
		out <- prometheus.MustNewConstMetric(c.findings, prometheus.GaugeValue, n, kind)
	}
}
