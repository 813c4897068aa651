package metrics

import "github.com/prometheus/client_golang/prometheus"

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
