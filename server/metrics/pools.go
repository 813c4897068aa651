package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/service"
)

// poolCollector tells of all pools.
type poolCollector struct {
	pools                 *service.Pools
	inUse, bound, refused *prometheus.Desc
}

func newPoolCollector(p *service.Pools) *poolCollector {
	label := []string{"pool"}
	return &poolCollector{
		pools:   p,
		inUse:   prometheus.NewDesc("weir_pool_in_use", "Places, or bytes, of a pool that are in use.", label, nil),
		bound:   prometheus.NewDesc("weir_pool_bound", "Places, or bytes, of a pool.", label, nil),
		refused: prometheus.NewDesc("weir_pool_refused_total", "Requests that were refused because a pool, or their client's share of it, was full.", label, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.inUse
	out <- c.bound
	out <- c.refused
}

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(out chan<- prometheus.Metric) {
	for _, p := range c.pools.All() {
		is := p.Stats()
		out <- prometheus.MustNewConstMetric(c.inUse, prometheus.GaugeValue, float64(is.InUse), is.Name)
		out <- prometheus.MustNewConstMetric(c.bound, prometheus.GaugeValue, float64(is.Bound), is.Name)
		out <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(is.Refused), is.Name)
	}
}

// newPoolSums tells of pools what had metrics of its own before they were many.
func newPoolSums(p *service.Pools) *figures[*service.Pools] {
	c := &figures[*service.Pools]{stats: func() *service.Pools { return p }}
	c.add(counter, "weir_http_refused_requests_total", "Requests refused because a pool was full: weir_pool_refused_total says which.",
		func(p *service.Pools) float64 { return float64(p.Refusals()) })
	c.add(gauge, "weir_http_buffered_bytes", "Memory of large bodies with an Idempotency-Key that are being read.",
		func(p *service.Pools) float64 { return float64(p.Buffered.Stats().InUse) })
	return c
}
