// Package metrics is what Prometheus scrapes: the figures of a service and of the HTTP server
// that it is asked through. It is a door of its own kind, which asks for nothing but figures.
//
// Its invariants: a scrape waits a second at most for other nodes; the number of
// series is bounded by routes, pools, policies and nodes, and that of keys is 1,000 (keys.go). A file has one source, which is read
// once per scrape (figures.go). Neighbours: package server answers /metrics with it.
package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/backend"
	"github.com/weir-counter/weir/internal/service/ingest"
)

// Metrics owns a registry of its own, so that two servers in one process do
// not meet. Labels are bounded: routes by their patterns, statuses by class. Create it with New.
type Metrics struct {
	registry  *prometheus.Registry
	duration  *prometheus.HistogramVec
	forbidden prometheus.Counter
}

// HTTP is what an HTTP server tells of itself at each scrape.
type HTTP struct {
	InFlight func() int64              // requests
	Conns    func() *listener.Listener // nil: there is no listener of ours
	Keys     []string                  // keys that begin with one of these have series of their own
}

// New returns the metrics of a service and of the HTTP server in front of it.
func New(s *service.Service, server HTTP) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "weir_http_request_duration_seconds",
			Help:    "Time from a request's header to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9), // 0.1 ms to 6.6 s
		}, []string{"route", "status"}),
		forbidden: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_http_forbidden_requests_total",
			Help: "Requests answered 403, because a page of another site sent them or they were for a host that is not this server's.",
		}),
	}
	b := s.Backend()
	m.registry.MustRegister(
		m.duration, m.forbidden, newConnCollector(server.Conns),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_http_in_flight_requests",
			Help: "Requests being handled.",
		}, func() float64 { return float64(server.InFlight()) }),
		newPoolCollector(s.Pools), newPoolSums(s.Pools), newRequestCollector(s.Requests), newAccountCollector(s),
		newEngineCollector(b.Engine.Stats), newAlarmCollector(s.Alarms), newDoorCollector(s.Doors), newDecisionCollector(s, b.Policies),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if b.Journal != nil {
		m.registry.MustRegister(newJournalCollector(b.Journal.Stats))
	}
	if b.History != nil {
		m.registry.MustRegister(newHistoryCollector(b.History.Stats))
	}
	if b.Cluster != nil {
		m.registry.MustRegister(newClusterCollector(b.Cluster), newLimitCollector(b.Policies, b.Strict, b.Leased))
	}
	if b.Regions != nil {
		m.registry.MustRegister(newRegionCollector(b.Regions), newGlobalCollector(b.Policies))
	}
	if b.Route != nil {
		m.registry.MustRegister(newRouteCollector(b.Route))
	}
	if b.PolicyFile != nil {
		m.registry.MustRegister(newPolicyFileCollector(b.PolicyFile))
	}
	if b.Kept != nil {
		m.registry.MustRegister(newKeptCollector(b.Kept.Stats))
	}
	if b.Warnings != nil {
		m.registry.MustRegister(newWarningCollector(b.Warnings.Figures))
	}
	if len(server.Keys) > 0 {
		m.registry.MustRegister(newKeyCollector(s, server.Keys))
	}
	return m
}

// Handler answers scrapes, in the format that they ask for.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Forbidden counts a request that was refused for where it came from.
func (m *Metrics) Forbidden() { m.forbidden.Inc() }

// Route returns the observer of one route. Each of its five series is looked up
// at its first request, once: most never have one, and a series has ten lines.
func (m *Metrics) Route(pattern string) func(status int, took time.Duration) {
	var classes [5]func() prometheus.Observer
	for i, class := range []string{"1xx", "2xx", "3xx", "4xx", "5xx"} {
		classes[i] = sync.OnceValue(func() prometheus.Observer { return m.duration.WithLabelValues(pattern, class) })
	}
	return func(status int, took time.Duration) {
		class := min(max(status/100-1, 0), len(classes)-1)
		classes[class]().Observe(took.Seconds())
	}
}

const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue

// figures are metrics of one source, which is read once per scrape, so that all of
// them are of one moment.
type figures[T any] struct {
	stats  func() T
	values []figure[T]
}

type figure[T any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(T) float64
}

func (f *figures[T]) add(kind prometheus.ValueType, name, help string, read func(T) float64) {
	f.values = append(f.values, figure[T]{prometheus.NewDesc(name, help, nil, nil), kind, read})
}

// Describe implements prometheus.Collector.
func (f *figures[T]) Describe(out chan<- *prometheus.Desc) {
	for _, v := range f.values {
		out <- v.desc
	}
}

// Collect implements prometheus.Collector.
func (f *figures[T]) Collect(out chan<- prometheus.Metric) { f.of(f.stats(), out) }

func (f *figures[T]) of(stats T, out chan<- prometheus.Metric) {
	for _, v := range f.values {
		out <- prometheus.MustNewConstMetric(v.desc, v.kind, v.read(stats))
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func newRouteCollector(stats func() backend.RouteStats) *figures[backend.RouteStats] {
	c := &figures[backend.RouteStats]{stats: stats}
	add := c.add
	add(counter, "weir_route_asked_total", "Questions put to other nodes, again where one did not answer.",
		func(s backend.RouteStats) float64 { return float64(s.Asked) })
	add(counter, "weir_route_joined_total", "Questions that waited for the answer to an equal one, and were not sent.",
		func(s backend.RouteStats) float64 { return float64(s.Joined) })
	add(counter, "weir_route_repeated_total", "Queries answered with the answer to an equal query within the last flush interval.",
		func(s backend.RouteStats) float64 { return float64(s.Repeated) })
	add(counter, "weir_route_requests_total", "Messages with questions to other nodes.",
		func(s backend.RouteStats) float64 { return float64(s.Requests) })
	add(counter, "weir_route_failed_requests_total", "Messages with questions that were not answered in time, or not understood: the next holder was asked.",
		func(s backend.RouteStats) float64 { return float64(s.Failed) })
	add(counter, "weir_route_unanswered_total", "Questions that no holder answered in time: any is an alarm.",
		func(s backend.RouteStats) float64 { return float64(s.Unanswered) })
	add(counter, "weir_route_refused_total", "Questions that were not asked because too many waited for other nodes.",
		func(s backend.RouteStats) float64 { return float64(s.Refused) })
	add(counter, "weir_route_served_total", "Questions of other nodes that this node answered.",
		func(s backend.RouteStats) float64 { return float64(s.Served) })
	add(counter, "weir_route_dropped_total", "Messages of other nodes that this node did not answer, because they had waited for too long or were too many.",
		func(s backend.RouteStats) float64 { return float64(s.Dropped) })
	add(gauge, "weir_route_asking", "Questions that wait for other nodes now.",
		func(s backend.RouteStats) float64 { return float64(s.Asking) })
	return c
}

// newRequestCollector tells what became of requests of hits.
func newRequestCollector(stats func() ingest.RequestStats) *figures[ingest.RequestStats] {
	c := &figures[ingest.RequestStats]{stats: stats}
	c.add(counter, "weir_rejected_lines_total", "Hits of any listener that were invalid or not permitted: lines of POST /v1/hits, or keys of RESP commands.",
		func(s ingest.RequestStats) float64 { return float64(s.Rejected) })
	c.add(counter, "weir_overloaded_lines_total", "Hits of any listener that were refused because the journal was behind.",
		func(s ingest.RequestStats) float64 { return float64(s.Overloaded) })
	c.add(counter, "weir_idempotent_replays_total", "Requests that came again under their Idempotency-Key, and counted nothing.",
		func(s ingest.RequestStats) float64 { return float64(s.Replayed) })
	c.add(counter, "weir_not_durable_requests_total", "Durable requests whose hits were counted, but not on disk in time.",
		func(s ingest.RequestStats) float64 { return float64(s.NotDurable) })
	return c
}
