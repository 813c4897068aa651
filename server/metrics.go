package server

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics owns a registry of its own, so that two servers in one process do
// not meet. Labels are bounded: routes by their patterns, statuses by class.
type metrics struct {
	registry      *prometheus.Registry
	duration      *prometheus.HistogramVec
	rejectedLines prometheus.Counter
	overloaded    prometheus.Counter
	replayed      prometheus.Counter
	forbidden     prometheus.Counter
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "weir_http_request_duration_seconds",
			Help:    "Time from a request's header to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9), // 0.1 ms to 6.6 s
		}, []string{"route", "status"}),
		rejectedLines: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_rejected_lines_total",
			Help: "Lines of POST /v1/hits that were not understood or not allowed.",
		}),
		overloaded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_overloaded_lines_total",
			Help: "Lines of POST /v1/hits that were refused because the journal was behind.",
		}),
		replayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_idempotent_replays_total",
			Help: "Requests that came again under their Idempotency-Key, and counted nothing.",
		}),
		forbidden: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_http_forbidden_requests_total",
			Help: "Requests answered 403, because a page of another site sent them or they were for a host that is not this server's.",
		}),
	}
	m.registry.MustRegister(
		m.duration, m.rejectedLines, m.overloaded, m.replayed, m.forbidden, newPoolCollector(s.service.Pools), newConnCollector(s.conns),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "weir_http_refused_requests_total",
			Help: "Requests refused because a pool was full: weir_pool_refused_total says which.",
		}, func() float64 { return float64(s.service.Pools.Refusals()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_http_in_flight_requests",
			Help: "Requests being handled.",
		}, func() float64 { return float64(s.inFlight.Load()) }),
		newEngineCollector(s.engine.Stats),
		newAlarmCollector(s.service.Alarms),
		newDecisionCollector(s.service),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "weir_not_durable_requests_total",
			Help: "Durable requests whose hits were counted, but not on disk in time.",
		}, func() float64 { return float64(s.service.NotDurable()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "weir_limit_hits_failed_total",
			Help: "Decisions that could not be counted as hits of limit:NAME:allowed or :denied, because the journal was behind.",
		}, func() float64 { return float64(s.policies.HitsFailed()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_http_buffered_bytes",
			Help: "Memory of large bodies with an Idempotency-Key that are being read.",
		}, func() float64 { return float64(s.service.Pools.Buffered.Stats().InUse) }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if s.cfg.Journal != nil {
		m.registry.MustRegister(newJournalCollector(s.cfg.Journal.Stats))
	}
	if s.cfg.Cluster != nil {
		m.registry.MustRegister(newClusterCollector(s), newLimitCollector(s))
	}
	if s.cfg.Route != nil {
		m.registry.MustRegister(newRouteCollector(s.cfg.Route))
	}
	if s.cfg.PolicyFile != nil {
		s.cfg.PolicyFile.register(m.registry)
	}
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// route returns the observer of one route. Each of its five series is looked up
// at its first request, once: most never have one, and a series has ten lines.
func (m *metrics) route(pattern string) func(status int, took time.Duration) {
	var classes [5]func() prometheus.Observer
	for i, class := range []string{"1xx", "2xx", "3xx", "4xx", "5xx"} {
		classes[i] = sync.OnceValue(func() prometheus.Observer { return m.duration.WithLabelValues(pattern, class) })
	}
	return func(status int, took time.Duration) {
		class := min(max(status/100-1, 0), len(classes)-1)
		classes[class]().Observe(took.Seconds())
	}
}
