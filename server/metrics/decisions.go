package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service"
)

// decisionCollector tells of the decisions of limits. Its names are those that policies
// of this process have had: the engine takes 10,000 at most.
type decisionCollector struct {
	service                              *service.Service
	policies                             *admit.Live
	decisions, unmatched, failed, banned *prometheus.Desc
}

func newDecisionCollector(s *service.Service, policies *admit.Live) *decisionCollector {
	return &decisionCollector{
		service: s, policies: policies,
		banned: prometheus.NewDesc("weir_limit_bans_failed_total",
			"Keys that deny_for of their policy did not ban, since 100,000 were banned, or the journal was full: their limit goes on denying what is over.", nil, nil),
		failed: prometheus.NewDesc("weir_limit_hits_failed_total",
			"Decisions that could not be counted as hits of limit:NAME:allowed or :denied, because the journal was behind.", nil, nil),
		unmatched: prometheus.NewDesc("weir_allow_unmatched_total",
			"Requests that were allowed because no policy is for any of their keys: a slip in a key or a pattern shows here.", nil, nil),
		decisions: prometheus.NewDesc("weir_limit_decisions_total",
			"Decisions of limits: allowed, denied, or shadow_denied by a limit that is not enforced.", []string{"limit", "outcome"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *decisionCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.decisions
	out <- c.unmatched
	out <- c.failed
	out <- c.banned
}

// Collect implements prometheus.Collector.
func (c *decisionCollector) Collect(out chan<- prometheus.Metric) {
	list, unmatched := c.service.Decisions()
	out <- prometheus.MustNewConstMetric(c.unmatched, prometheus.CounterValue, float64(unmatched))
	out <- prometheus.MustNewConstMetric(c.failed, prometheus.CounterValue, float64(c.policies.HitsFailed()))
	out <- prometheus.MustNewConstMetric(c.banned, prometheus.CounterValue, float64(c.policies.BansFailed()))
	for _, of := range list {
		for outcome, n := range map[string]uint64{"allowed": of.Allowed, "denied": of.Denied, "shadow_denied": of.ShadowDenied} {
			out <- prometheus.MustNewConstMetric(c.decisions, prometheus.CounterValue, float64(n), of.Limit, outcome)
		}
	}
}
