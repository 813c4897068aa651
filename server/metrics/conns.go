package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/service/conns"
)

// connCollector tells of the connections of a listener.
type connCollector struct {
	conns             func() *conns.Listener // nil: there is no listener of ours
	open, bound, shed *prometheus.Desc
}

func newConnCollector(of func() *conns.Listener) *connCollector {
	return &connCollector{
		conns: of,
		open:  prometheus.NewDesc("weir_connections", "Open connections.", nil, nil),
		bound: prometheus.NewDesc("weir_connections_bound", "Most open connections.", nil, nil),
		shed:  prometheus.NewDesc("weir_connections_shed_total", "Connections that waited for their client and were closed to let others in.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *connCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.open
	out <- c.bound
	out <- c.shed
}

// Collect implements prometheus.Collector.
func (c *connCollector) Collect(out chan<- prometheus.Metric) {
	cs := c.conns()
	if cs == nil {
		return
	}
	open, shed := cs.Count()
	out <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(open))
	out <- prometheus.MustNewConstMetric(c.bound, prometheus.GaugeValue, float64(cs.Bound()))
	out <- prometheus.MustNewConstMetric(c.shed, prometheus.CounterValue, float64(shed))
}
