package metrics

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/service"
)

const (
	// MaxKeySeries bounds the series of keys, of all prefixes together.
	MaxKeySeries = 1000

	loadWindow = 5 * time.Minute // of weir_key_hits
	rateWindow = time.Minute     // of weir_key_hits_per_second
	keySeries  = 6               // of each key
	maxKeys    = (MaxKeySeries - 1) / keySeries

	// Which keys are shown is chosen anew after this time at least, and after so many times what it took.
	minChoice   = 10 * time.Second
	choiceShare = 20
)

// keyCollector tells how often keys were hit lately that begin with chosen prefixes: those with most hits.
type keyCollector struct {
	service    *service.Service
	prefixes   []string // none within another
	hits, rate bounded
	left       *prometheus.Desc
	clock      func() time.Time

	mu   sync.Mutex
	keys []string
	more bool      // some are left out
	next time.Time // when keys are chosen again
}

// bounded are the metrics of a number with its bounds.
type bounded struct{ estimate, lower, upper *prometheus.Desc }

func newKeyCollector(s *service.Service, prefixes []string) *keyCollector {
	desc := func(name, help string) bounded {
		return bounded{
			prometheus.NewDesc(name, help, []string{"key"}, nil),
			prometheus.NewDesc(name+"_lower", "The least that "+name+" may be.", []string{"key"}, nil),
			prometheus.NewDesc(name+"_upper", "The most that "+name+" may be. There is none while a node is late.", []string{"key"}, nil),
		}
	}
	return &keyCollector{
		service: s, prefixes: outermost(prefixes), clock: time.Now,
		hits: desc("weir_key_hits", "Hits of a key in the last 5 minutes, of all nodes: do not sum it over nodes."),
		rate: desc("weir_key_hits_per_second", "Hits of a key per second, the mean of the last minute, of all nodes: do not sum it over nodes."),
		left: prometheus.NewDesc("weir_key_series_left_out", "1 while keys of --metrics-keys with fewer hits have no series: there are 1,000 at most.", nil, nil),
	}
}

// outermost leaves out prefixes that begin with another.
func outermost(prefixes []string) (list []string) {
	sorted := slices.Sorted(slices.Values(prefixes))
	for _, p := range sorted {
		if len(list) == 0 || !strings.HasPrefix(p, list[len(list)-1]) {
			list = append(list, p)
		}
	}
	return list
}

// Describe implements prometheus.Collector.
func (c *keyCollector) Describe(out chan<- *prometheus.Desc) {
	for _, of := range []bounded{c.hits, c.rate} {
		out <- of.estimate
		out <- of.lower
		out <- of.upper
	}
	out <- c.left
}

// Collect implements prometheus.Collector. Where other nodes do not answer in time there are no series: a gap says more than
// an old number.
func (c *keyCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	keys, more := c.chosen(ctx)
	out <- prometheus.MustNewConstMetric(c.left, prometheus.GaugeValue, oneIf(more))
	counts, err := c.service.KeyFigures(ctx, keys, []time.Duration{loadWindow, rateWindow})
	if err != nil {
		return
	}
	for i, key := range keys {
		load, rate := counts[2*i], counts[2*i+1].Per(int64(rateWindow/time.Second))
		gauge := func(desc *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, key)
		}
		gauge(c.hits.estimate, float64(load.Estimate))
		gauge(c.hits.lower, float64(load.Lower))
		gauge(c.rate.estimate, rate.Estimate)
		gauge(c.rate.lower, rate.Lower)
		if load.Upper != nil {
			gauge(c.hits.upper, float64(*load.Upper))
		}
		if rate.Upper != nil {
			gauge(c.rate.upper, *rate.Upper)
		}
	}
}

// chosen are the keys with most hits, as of some time ago: to find them takes long where there are many.
func (c *keyCollector) chosen(ctx context.Context) (keys []string, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := c.clock()
	if began.Before(c.next) {
		return c.keys, c.more
	}
	keys, err := c.service.BusiestKeys(ctx, loadWindow, maxKeys+1, c.prefixes)
	if err != nil {
		return c.keys, c.more // the next scrape asks again
	}
	c.more = len(keys) > maxKeys
	keys = keys[:min(len(keys), maxKeys)]
	c.keys = slices.DeleteFunc(keys, func(key string) bool { return !utf8.ValidString(key) }) // Prometheus has no other labels
	ended := c.clock()
	c.next = ended.Add(max(minChoice, choiceShare*ended.Sub(began)))
	return c.keys, c.more
}
