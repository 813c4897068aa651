package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/service"
)

// keptCollector tells of policies that were put by API.
type keptCollector struct {
	stats                           func() service.KeptStats
	policies, version, changes, bad *prometheus.Desc
}

func newKeptCollector(stats func() service.KeptStats) *keptCollector {
	return &keptCollector{
		stats:    stats,
		policies: prometheus.NewDesc("weir_kept_policies", "Policies that were put by API, by whether they are in use on this node.", []string{"used"}, nil),
		version:  prometheus.NewDesc("weir_kept_policies_version", "Version of the newest change to policies by API that this node has. All nodes have the same.", nil, nil),
		changes:  prometheus.NewDesc("weir_kept_policies_changes_total", "Changes to policies by API that this node made.", nil, nil),
		bad:      prometheus.NewDesc("weir_kept_policies_bad", "1 while a policy that was put by API can't be in use on this node, or the newest ones can't be asked for.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *keptCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.policies
	out <- c.version
	out <- c.changes
	out <- c.bad
}

// Collect implements prometheus.Collector.
func (c *keptCollector) Collect(out chan<- prometheus.Metric) {
	now := c.stats()
	out <- prometheus.MustNewConstMetric(c.policies, prometheus.GaugeValue, float64(now.Policies-now.Unused), "yes")
	out <- prometheus.MustNewConstMetric(c.policies, prometheus.GaugeValue, float64(now.Unused), "no")
	out <- prometheus.MustNewConstMetric(c.version, prometheus.GaugeValue, float64(now.Version))
	out <- prometheus.MustNewConstMetric(c.changes, prometheus.CounterValue, float64(now.Changes))
	out <- prometheus.MustNewConstMetric(c.bad, prometheus.GaugeValue, oneIf(now.Bad))
}
