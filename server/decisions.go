package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/service"
)

// decisionCollector tells of the decisions of limits. Its names are those that policies
// of this process have had: the engine takes 10,000 at most.
type decisionCollector struct {
	service              *service.Service
	decisions, unmatched *prometheus.Desc
}

func newDecisionCollector(s *service.Service) *decisionCollector {
	return &decisionCollector{
		service: s,
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
}

// Collect implements prometheus.Collector.
func (c *decisionCollector) Collect(out chan<- prometheus.Metric) {
	list, unmatched := c.service.Decisions()
	out <- prometheus.MustNewConstMetric(c.unmatched, prometheus.CounterValue, float64(unmatched))
	for _, of := range list {
		for outcome, n := range map[string]uint64{"allowed": of.Allowed, "denied": of.Denied, "shadow_denied": of.ShadowDenied} {
			out <- prometheus.MustNewConstMetric(c.decisions, prometheus.CounterValue, float64(n), of.Limit, outcome)
		}
	}
}
