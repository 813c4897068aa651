// Package metrics is what Prometheus scrapes: the figures of a service and of the HTTP server
// that it is asked through. It is a listener of its own kind, which asks for nothing but figures.
//
// Its invariants: a scrape waits a second at most for other nodes. The number of
// series is bounded by routes, pools, policies and nodes. Each metric is declared once:
// by tags of the struct that has it (figures), or in the table of a collector.
package metrics

import (
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
)

// Metrics owns a registry of its own, so that two servers in one process do
// not meet. Labels are bounded: routes by their patterns, statuses by class. Create it with New.
type Metrics struct {
	registry  *prometheus.Registry
	duration  *prometheus.HistogramVec // of HTTP
	listeners *prometheus.HistogramVec
	forbidden prometheus.Counter
}

// HTTP is what an HTTP server tells of itself at each scrape.
type HTTP struct {
	InFlight func() int64              // requests
	Conns    func() *listener.Listener // nil, or returns nil, if Weir does not listen itself
}

func New(s *service.Service, server HTTP) *Metrics {
	durations := func(name, help string, labels ...string) *prometheus.HistogramVec {
		buckets := prometheus.ExponentialBuckets(0.0001, 4, 9) // 0.1 ms to 6.6 s
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		duration:  durations("weir_http_request_duration_seconds", "Time from a request's header to the end of its answer.", "route", "status"),
		listeners: durations("weir_listener_request_duration_seconds", "Time to answer a request of RESP or gRPC. Of commands that arrive together only the last is observed, with the time of all.", "listener", "command"),
		forbidden: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_http_forbidden_requests_total",
			Help: "Requests answered 403, because a page of another site sent them or they were for a host that is not this server's.",
		}),
	}
	s.TimeRequests(func(listener, command string) access.Timer { return timer(m.listeners, listener, command) })
	b := s.Backend()
	m.registry.MustRegister(
		m.duration, m.listeners, m.forbidden,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_http_in_flight_requests",
			Help: "Requests being handled.",
		}, func() float64 { return float64(server.InFlight()) }),
		figures(func() any { return s.Pools.Stats() }), figures(func() any { return s.Requests() }), figures(func() any { return s.Accounts() }),
		figures(func() any { return b.Engine.Stats() }), newAlarmCollector(s.Alarms),
		figures(func() any { return s.Listeners() }), newRequestCollector(s.Listeners),
		figures(func() any { list, _ := s.Decisions(); return list }), newDecisionCollector(s, b.Policies),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	for _, read := range b.Figures {
		m.registry.MustRegister(figures(read))
	}
	if b.Cluster != nil {
		m.registry.MustRegister(newClusterCollector(b.Cluster), newLimitCollector(b.Policies))
	}
	if b.Regions != nil {
		m.registry.MustRegister(newRegionCollector(b.Regions))
	}
	if server.Conns != nil {
		m.registry.MustRegister(figures(func() any { return server.Conns().Count() }))
	}
	if s.Locked() {
		m.registry.MustRegister(figures(func() any { return s.Tokens() }))
	}
	if b.PolicyFile != nil {
		m.registry.MustRegister(figures(func() any { return b.PolicyFile.Stats() }))
	}
	if b.Kept != nil {
		m.registry.MustRegister(figures(func() any { return b.Kept.Stats() }))
	}
	return m
}

// Handler answers scrapes, in the format that they ask for.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Forbidden counts a request that was refused for where it came from.
func (m *Metrics) Forbidden() { m.forbidden.Inc() }

// Route returns the observer of one route. Each of its five series is made at its first request: most never have one.
func (m *Metrics) Route(pattern string) func(status int, took time.Duration, trace string) {
	var classes [5]access.Timer
	for i, class := range []string{"1xx", "2xx", "3xx", "4xx", "5xx"} {
		classes[i] = timer(m.duration, pattern, class)
	}
	return func(status int, took time.Duration, trace string) {
		classes[min(max(status/100-1, 0), len(classes)-1)](took, trace)
	}
}

// timer returns the observer of a series, which is looked up at its first request, once: a series has ten lines. A trace becomes the
// exemplar of its bucket.
func timer(vec *prometheus.HistogramVec, labels ...string) access.Timer {
	series := sync.OnceValue(func() prometheus.Observer { return vec.WithLabelValues(labels...) })
	return func(took time.Duration, trace string) {
		if trace == "" {
			series().Observe(took.Seconds())
		} else if one, can := series().(prometheus.ExemplarObserver); can {
			one.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": trace})
		}
	}
}

// figures are the metrics of a struct, whose fields are declared as metrics where they are counted, by tags:
//
//	Flushes uint64 `metric:"weir_journal_flushes_total" doc:"Flushes that are on disk."`
//	Lossy   int    `metric:"weir_journal_findings,kind=lossy"`
//
// Fields are numbers, booleans (true is 1), texts ("" is 0), times or durations (in seconds); a nil pointer to one has no series.
// Names that end with _total are counters, others gauges. Fields of one name have a label, and the first of them has the help
// text. Fields of an embedded struct are its own. In a list of structs, the field with the tag label names the struct. All is read
// once per scrape, so that all metrics belong to one moment.
func figures(read func() any) prometheus.Collector {
	var metrics []metric
	type value struct {
		field        []int // reflect.StructField.Index
		name, labels string
	}
	var values []value
	var named []int // the field that names a struct of a list; nil: none
	kind, names := reflect.TypeOf(read()), ""
	list := kind.Kind() == reflect.Slice
	if list {
		kind = kind.Elem()
	}
	for _, field := range reflect.VisibleFields(kind) {
		if label, is := field.Tag.Lookup("label"); is {
			named, names = field.Index, label
		}
		tag, is := field.Tag.Lookup("metric")
		if !is {
			continue
		}
		name, labeled, _ := strings.Cut(tag, ",")
		label, text, _ := strings.Cut(labeled, "=")
		if help := field.Tag.Get("doc"); help != "" {
			metrics = append(metrics, metric{name, help, names + " " + label})
		}
		values = append(values, value{field.Index, name, text})
	}
	one := func(emit emit, row reflect.Value) {
		for _, v := range values {
			field := row.FieldByIndex(v.field)
			if field.Kind() == reflect.Pointer {
				if field.IsNil() {
					continue
				}
				field = field.Elem()
			}
			var labels []string
			if named != nil {
				labels = append(labels, row.FieldByIndex(named).String())
			}
			if v.labels != "" {
				labels = append(labels, v.labels)
			}
			emit(v.name, number(field), labels...)
		}
	}
	return newCollector(metrics, func(emit emit) {
		rows := reflect.ValueOf(read())
		if !list {
			one(emit, rows)
			return
		}
		for i := range rows.Len() {
			one(emit, rows.Index(i))
		}
	})
}

func number(v reflect.Value) float64 {
	switch is := v.Interface().(type) {
	case time.Duration:
		return is.Seconds()
	case time.Time:
		return float64(is.Unix())
	case string:
		return oneIf(is != "")
	}
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	case v.CanFloat():
		return v.Float()
	}
	return oneIf(v.Bool())
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// metric declares one: labels are the names of its labels, with spaces between them.
type metric struct{ name, help, labels string }

// emit passes the value of a metric at a scrape, with the values of its labels.
type emit func(name string, value float64, labels ...string)

// collector is metrics that are read together. Names that end with _total are counters, others gauges.
type collector struct {
	descs   map[string]*prometheus.Desc
	collect func(emit)
}

func newCollector(metrics []metric, collect func(emit)) *collector {
	c := &collector{map[string]*prometheus.Desc{}, collect}
	for _, m := range metrics {
		c.descs[m.name] = prometheus.NewDesc(m.name, m.help, strings.Fields(m.labels), nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.collect(func(name string, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(name, "_total") {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(c.descs[name], kind, value, labels...)
	})
}
