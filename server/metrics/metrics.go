package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/conns"
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
	InFlight func() int64           // requests
	Conns    func() *conns.Listener // nil: there is no listener of ours
	Keys     []string               // keys that begin with one of these have series of their own
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
