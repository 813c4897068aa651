package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/policy/admit"
)

// globalCollector tells of limits that regions share without parts: two series for each policy.
type globalCollector struct {
	policies   *admit.Live
	over, late *prometheus.Desc
}

func newGlobalCollector(policies *admit.Live) *globalCollector {
	return &globalCollector{
		policies: policies,
		over:     prometheus.NewDesc("weir_limit_regions_over", "Of a limit that regions share without parts: the most admissions of all regions of one key that were more than its burst, as this node found at a denial since its start. Take the largest of all nodes.", []string{"limit"}, nil),
		late:     prometheus.NewDesc("weir_limit_regions_late_total", "Decisions of such a limit while newer admissions of another region may have been missing.", []string{"limit"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *globalCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.over
	out <- c.late
}

// Collect implements prometheus.Collector.
func (c *globalCollector) Collect(out chan<- prometheus.Metric) {
	for _, p := range c.policies.Set().Policies() {
		if !p.Global {
			continue
		}
		now := c.policies.Global(p.Name)
		out <- prometheus.MustNewConstMetric(c.over, prometheus.GaugeValue, float64(now.Over), p.Name)
		out <- prometheus.MustNewConstMetric(c.late, prometheus.CounterValue, float64(now.Late), p.Name)
	}
}
