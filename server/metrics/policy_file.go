package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/service"
)

// policyFileCollector tells of the file that policies come from.
type policyFileCollector struct {
	file                *service.PolicyFile
	reloads, bad, since *prometheus.Desc
}

func newPolicyFileCollector(file *service.PolicyFile) *policyFileCollector {
	return &policyFileCollector{
		file:    file,
		reloads: prometheus.NewDesc("weir_policy_reloads_total", "Times that the policy file was read, the start included, by what became of it.", []string{"result"}, nil),
		bad:     prometheus.NewDesc("weir_policy_file_bad", "1 while the newest policy file is not in use, because it is wrong or can't be read; the policies before it are.", nil, nil),
		since:   prometheus.NewDesc("weir_policy_loaded_timestamp_seconds", "When the policies in use were read.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *policyFileCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.reloads
	out <- c.bad
	out <- c.since
}

// Collect implements prometheus.Collector.
func (c *policyFileCollector) Collect(out chan<- prometheus.Metric) {
	now := c.file.Stats()
	out <- prometheus.MustNewConstMetric(c.reloads, prometheus.CounterValue, float64(now.Loads), "ok")
	out <- prometheus.MustNewConstMetric(c.reloads, prometheus.CounterValue, float64(now.Failures), "failed")
	out <- prometheus.MustNewConstMetric(c.bad, prometheus.GaugeValue, oneIf(now.Trouble != ""))
	out <- prometheus.MustNewConstMetric(c.since, prometheus.GaugeValue, float64(now.Loaded.Unix()))
}
