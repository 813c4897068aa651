package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/service"
)

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
