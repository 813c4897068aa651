package metrics

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
)

func newEngineCollector(stats func() weir.Stats) *figures[weir.Stats] {
	c := &figures[weir.Stats]{stats: stats}
	add := c.add
	add(counter, "weir_hits_total", "Hits counted, late ones included, and decisions of limits not.",
		func(s weir.Stats) float64 { return float64(s.Hits) })
	add(counter, "weir_late_hits_total", "Hits counted that were older than the newest of their key.",
		func(s weir.Stats) float64 { return float64(s.Late) })
	add(counter, "weir_too_late_hits_total", "Hits not counted: older than the retention.",
		func(s weir.Stats) float64 { return float64(s.TooLate) })
	add(counter, "weir_history_hits_total", "Hits older than the retention, which the history has and no window: not among weir_hits_total.",
		func(s weir.Stats) float64 { return float64(s.ForHistory) })
	add(counter, "weir_too_far_ahead_hits_total", "Hits refused: too far in the future.",
		func(s weir.Stats) float64 { return float64(s.TooFarAhead) })
	add(counter, "weir_quarantined_hits_total", "Hits of other nodes, snapshots or older lives, minutes and more ahead of this node's clock: they count when their second comes.",
		func(s weir.Stats) float64 { return float64(s.Quarantined) })
	add(gauge, "weir_clock_correction_seconds", "Seconds added to this machine's time of day, since most other nodes say that it is wrong by as much.",
		func(s weir.Stats) float64 { return s.ClockCorrection.Seconds() })
	add(gauge, "weir_limit_clock_behind_seconds", "Seconds by which the time of day has run ahead of the clock that limits are kept by since the start: it was set, or the machine was stopped. Limits are not wrong by it.",
		func(s weir.Stats) float64 { return s.LimitClockBehind.Seconds() })
	add(gauge, "weir_keys", "Keys held.",
		func(s weir.Stats) float64 { return float64(s.Keys) })
	add(gauge, "weir_hot_keys", "Keys held that keep slots instead of single hits.",
		func(s weir.Stats) float64 { return float64(s.HotKeys) })
	add(counter, "weir_evicted_keys_total", "Keys dropped to keep the memory budget.",
		func(s weir.Stats) float64 { return float64(s.EvictedKeys) })
	add(counter, "weir_evicted_hits_total", "Hits that left with evicted keys.",
		func(s weir.Stats) float64 { return float64(s.EvictedHits) })
	add(counter, "weir_expired_keys_total", "Keys dropped because all their hits were older than the retention.",
		func(s weir.Stats) float64 { return float64(s.ExpiredKeys) })
	add(gauge, "weir_memory_bytes", "Memory of the keys, as the budget counts it.",
		func(s weir.Stats) float64 { return float64(s.Bytes) })
	add(gauge, "weir_memory_budget_bytes", "The memory budget.",
		func(s weir.Stats) float64 { return float64(s.MemoryBudget) })
	add(gauge, "weir_waiting_deltas", "Hits that wait for the journal, one for each key and second.",
		func(s weir.Stats) float64 { return float64(s.Waiting) })
	add(gauge, "weir_limit_states", "Keys with limits in use, counted for each limit, and some that are no longer.",
		func(s weir.Stats) float64 { return float64(s.LimitStates) })
	add(gauge, "weir_limit_bytes", "Memory of these, as the budget of limits counts it.",
		func(s weir.Stats) float64 { return float64(s.LimitBytes) })
	add(counter, "weir_limit_refused_total", "Requests that no limit was asked for, because the memory of limits was full of limits in use.",
		func(s weir.Stats) float64 { return float64(s.LimitRefused) })
	add(gauge, "weir_limit_budget_bytes", "The budget of weir_limit_bytes.",
		func(s weir.Stats) float64 { return float64(s.LimitBudget) })
	add(gauge, "weir_inline_limit_bytes", "Part of weir_limit_bytes for limits that requests define; at most a quarter of the budget.",
		func(s weir.Stats) float64 { return float64(s.InlineBytes) })
	add(gauge, "weir_idempotency_keys", "Idempotency-Keys that are remembered, of all nodes.",
		func(s weir.Stats) float64 { return float64(s.OnceKeys) })
	add(gauge, "weir_idempotency_bytes", "Memory of those that this node was the first to see.",
		func(s weir.Stats) float64 { return float64(s.OnceBytes) })
	add(gauge, "weir_idempotency_budget_bytes", "The budget of these; the others have twice as much.",
		func(s weir.Stats) float64 { return float64(s.OnceBudget) })
	add(counter, "weir_idempotency_refused_total", "Requests that were refused, and not counted, because the memory for Idempotency-Keys was full.",
		func(s weir.Stats) float64 { return float64(s.OnceRefused) })
	add(counter, "weir_idempotency_dropped_total", "Idempotency-Keys of other nodes, or earlier lives, that were forgotten before ten minutes.",
		func(s weir.Stats) float64 { return float64(s.OnceDropped) })
	return c
}

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

// accountCollector tells what identities have used, and of the tokens file. Its labels are the
// names of that file: 1,000 at most.
type accountCollector struct {
	of                              *service.Service
	requests, hits, refused         *prometheus.Desc
	unauthorized, tokens, bad, many *prometheus.Desc
}

func newAccountCollector(of *service.Service) *accountCollector {
	return &accountCollector{
		of:           of,
		requests:     prometheus.NewDesc("weir_identity_requests_total", "Requests of an identity that its token or certificate proved.", []string{"identity"}, nil),
		hits:         prometheus.NewDesc("weir_identity_hits_total", "Lines of hits of an identity that went to the counters.", []string{"identity"}, nil),
		refused:      prometheus.NewDesc("weir_identity_refused_total", "Requests, or lines of hits, of an identity that were refused: by its roles (forbidden) or by a ceiling.", []string{"identity", "reason"}, nil),
		unauthorized: prometheus.NewDesc("weir_unauthorized_total", "Requests that proved no identity.", nil, nil),
		many:         prometheus.NewDesc("weir_identities", "Identities of the tokens file in use.", nil, nil),
		tokens:       prometheus.NewDesc("weir_tokens", "Tokens of the tokens file in use, by whether they have expired, or will within a week.", []string{"state"}, nil),
		bad:          prometheus.NewDesc("weir_tokens_file_bad", "1 while the newest tokens file is not in use, because it is wrong or can't be read; the tokens before it are.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *accountCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.requests, c.hits, c.refused, c.unauthorized, c.many, c.tokens, c.bad} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *accountCollector) Collect(out chan<- prometheus.Metric) {
	st, locked := c.of.Tokens()
	if !locked {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(c.many, float64(st.Identities))
	gauge(c.tokens, float64(st.Tokens-st.Expired-st.ExpiringSoon), "good")
	gauge(c.tokens, float64(st.ExpiringSoon), "expires_soon")
	gauge(c.tokens, float64(st.Expired), "expired")
	gauge(c.bad, oneIf(st.FileBad))
	accounts, unauthorized := c.of.Accounts()
	count(c.unauthorized, unauthorized)
	for _, a := range accounts {
		count(c.requests, a.Requests, a.Identity)
		count(c.hits, a.Hits, a.Identity)
		count(c.refused, a.Forbidden, a.Identity, "forbidden")
		count(c.refused, a.OverRequests, a.Identity, "requests_per_second")
		count(c.refused, a.OverHits, a.Identity, "hits_per_second")
		count(c.refused, a.OverNewKeys, a.Identity, "new_keys_per_minute")
	}
}

// poolCollector tells of all pools.
type poolCollector struct {
	pools                 *access.Pools
	inUse, bound, refused *prometheus.Desc
}

func newPoolCollector(p *access.Pools) *poolCollector {
	label := []string{"pool"}
	return &poolCollector{
		pools:   p,
		inUse:   prometheus.NewDesc("weir_pool_in_use", "Places, or bytes, of a pool that are in use.", label, nil),
		bound:   prometheus.NewDesc("weir_pool_bound", "Places, or bytes, of a pool.", label, nil),
		refused: prometheus.NewDesc("weir_pool_refused_total", "Requests that were refused because a pool, or the client's share of the pool, was full.", label, nil),
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
func newPoolSums(p *access.Pools) *figures[*access.Pools] {
	c := &figures[*access.Pools]{stats: func() *access.Pools { return p }}
	c.add(counter, "weir_http_refused_requests_total", "Requests refused because a pool was full: weir_pool_refused_total says which.",
		func(p *access.Pools) float64 { return float64(p.Refusals()) })
	c.add(gauge, "weir_http_buffered_bytes", "Memory of large bodies with an Idempotency-Key that are being read.",
		func(p *access.Pools) float64 { return float64(p.Buffered.Stats().InUse) })
	return c
}
