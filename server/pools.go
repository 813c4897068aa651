package server

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/service"
)

// poolOf is the pool that a route's requests are in from beginning to end; nil: none, or the
// handler enters some by itself.
func poolOf(p *service.Pools, pattern string) *service.Pool {
	switch pattern {
	case "GET /healthz", "GET /readyz", "GET /metrics", "/",
		"GET /docs", "GET /docs/page.js", "GET /docs/page.css", "GET /openapi.json", "GET /{$}", "GET /docs/{$}",
		"POST /v1/hits", "POST /v1/allow", "GET /v1/backup", "POST /v1/restore":
		return nil
	case "GET /v1/stats", "GET /v1/cluster", "DELETE /v1/keys/{key}", "DELETE /v1/cluster/nodes/{node}", "DELETE /v1/limits/inline":
		return p.Admin
	}
	return p.Questions
}

// clientOf is who a request comes from.
func clientOf(r *http.Request) service.Caller { return service.CallerAt(r.RemoteAddr) }

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
