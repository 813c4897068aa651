package server

import "github.com/prometheus/client_golang/prometheus"

// RouteStats are the figures of questions whose keys other nodes hold, since the
// start.
type RouteStats struct {
	Asked      uint64 // questions put to other nodes
	Joined     uint64 // questions that waited for the answer to an equal one
	Repeated   uint64 // questions answered by what an equal one was told just before
	Requests   uint64 // messages with questions to other nodes
	Failed     uint64 // those without an answer
	Unanswered uint64 // questions that no holder answered
	Refused    uint64 // questions not asked, because too many waited
	Served     uint64 // questions of other nodes that were answered
	Dropped    uint64 // messages of other nodes that waited for too long or were too many
	Asking     int    // questions and decisions under way now
	Decisions  uint64 // decisions of shared limits that were put to other nodes
	Undecided  uint64 // those that no holder made in time, or that were too many: this node did by itself
}

// routeCollector reads the figures once per scrape.
type routeCollector struct {
	stats  func() RouteStats
	values []routeValue
}

type routeValue struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(RouteStats) float64
}

func newRouteCollector(stats func() RouteStats) *routeCollector {
	c := &routeCollector{stats: stats}
	add := func(kind prometheus.ValueType, name, help string, read func(RouteStats) float64) {
		c.values = append(c.values, routeValue{prometheus.NewDesc(name, help, nil, nil), kind, read})
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	add(counter, "weir_route_asked_total", "Questions put to other nodes, again where one did not answer.",
		func(s RouteStats) float64 { return float64(s.Asked) })
	add(counter, "weir_route_joined_total", "Questions that waited for the answer to an equal one, and were not sent.",
		func(s RouteStats) float64 { return float64(s.Joined) })
	add(counter, "weir_route_repeated_total", "Questions answered by what an equal one was told within a flush interval before.",
		func(s RouteStats) float64 { return float64(s.Repeated) })
	add(counter, "weir_route_requests_total", "Messages with questions to other nodes.",
		func(s RouteStats) float64 { return float64(s.Requests) })
	add(counter, "weir_route_failed_requests_total", "Messages with questions that were not answered in time, or not understood: the next holder was asked.",
		func(s RouteStats) float64 { return float64(s.Failed) })
	add(counter, "weir_route_unanswered_total", "Questions that no holder answered in time: any is an alarm.",
		func(s RouteStats) float64 { return float64(s.Unanswered) })
	add(counter, "weir_route_refused_total", "Questions that were not asked because too many waited for other nodes.",
		func(s RouteStats) float64 { return float64(s.Refused) })
	add(counter, "weir_route_served_total", "Questions of other nodes that this node answered.",
		func(s RouteStats) float64 { return float64(s.Served) })
	add(counter, "weir_route_dropped_total", "Messages of other nodes that this node did not answer, because they had waited for too long or were too many.",
		func(s RouteStats) float64 { return float64(s.Dropped) })
	add(counter, "weir_route_decisions_total", "Decisions of shared limits that were put to nodes that hold the key.",
		func(s RouteStats) float64 { return float64(s.Decisions) })
	add(counter, "weir_route_undecided_total", "Decisions of shared limits that no holder made in time: this node did, by what it has admitted itself.",
		func(s RouteStats) float64 { return float64(s.Undecided) })
	add(gauge, "weir_route_asking", "Questions and decisions that wait for other nodes now.",
		func(s RouteStats) float64 { return float64(s.Asking) })
	return c
}

func (c *routeCollector) Describe(out chan<- *prometheus.Desc) {
	for _, v := range c.values {
		out <- v.desc
	}
}

func (c *routeCollector) Collect(out chan<- prometheus.Metric) {
	stats := c.stats()
	for _, v := range c.values {
		out <- prometheus.MustNewConstMetric(v.desc, v.kind, v.read(stats))
	}
}
