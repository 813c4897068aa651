package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service/access"
)

// doorCollector tells of the doors beside HTTP. Its series are bounded by the kinds of requests that
// they know.
type doorCollector struct {
	doors                         func() []access.ListenerFigures
	open, bound, shed             *prometheus.Desc
	requests, failed              *prometheus.Desc
	keys, bytes, maximum, refused *prometheus.Desc
	rejected, packets, dropped    *prometheus.Desc
}

func newDoorCollector(doors func() []access.ListenerFigures) *doorCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("weir_door_"+name, help, append([]string{"door"}, labels...), nil)
	}
	return &doorCollector{
		doors:    doors,
		open:     desc("connections", "Open connections."),
		bound:    desc("connections_bound", "Most open connections."),
		shed:     desc("connections_shed_total", "Connections that waited for their client and were closed to let others in."),
		requests: desc("requests_total", "Requests by command, those that failed among them.", "command"),
		failed:   desc("requests_failed_total", "Requests that were answered with an error."),
		keys:     desc("counters", "Counters with an expiry, including expired ones that were not removed yet."),
		bytes:    desc("counters_bytes", "Memory of these counters."),
		maximum:  desc("counters_bytes_bound", "Most memory of these counters."),
		refused:  desc("counters_refused_total", "New counters that there was no memory for."),
		rejected: desc("rejected_total", "Lines that were not counted, by reason.", "reason"),
		packets:  desc("datagrams_total", "Datagrams received."),
		dropped:  desc("datagrams_dropped_total", "Datagrams that the kernel dropped because the buffer was full."),
	}
}

// Describe implements prometheus.Collector.
func (c *doorCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.open, c.bound, c.shed, c.requests, c.failed, c.keys, c.bytes, c.maximum, c.refused, c.rejected, c.packets, c.dropped} {
		out <- d
	}
}

// Collect implements prometheus.Collector. A command that was never sent has no series.
func (c *doorCollector) Collect(out chan<- prometheus.Metric) {
	for _, f := range c.doors() {
		gauge := func(d *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, f.Name)
		}
		counter := func(d *prometheus.Desc, v uint64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), append([]string{f.Name}, labels...)...)
		}
		gauge(c.open, float64(f.Open))
		gauge(c.bound, float64(f.Bound))
		counter(c.shed, f.Shed)
		for _, r := range f.Requests {
			if r.Count > 0 {
				counter(c.requests, r.Count, r.Kind)
			}
		}
		counter(c.failed, f.Failed)
		for _, r := range f.Rejected {
			if r.Count > 0 {
				counter(c.rejected, r.Count, r.Kind)
			}
		}
		if p := f.Packets; p != nil {
			counter(c.packets, p.Received)
			if p.Known {
				counter(c.dropped, p.Dropped)
			}
		}
		gauge(c.keys, float64(f.Keys))
		gauge(c.bytes, float64(f.Bytes))
		gauge(c.maximum, float64(f.BytesBound))
		counter(c.refused, f.Refused)
	}
}

// connCollector tells of the connections of a listener.
type connCollector struct {
	conns             func() *listener.Listener // nil: there is no listener of ours
	open, bound, shed *prometheus.Desc
}

func newConnCollector(of func() *listener.Listener) *connCollector {
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
