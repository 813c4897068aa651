package server

import (
	"github.com/prometheus/client_golang/prometheus"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy"
)

// StrictStats are the figures of the strict limits that nodes decide for each other,
// since the start.
type StrictStats struct {
	Held       int    // groups of keys that this node decides for now
	Decided    uint64 // questions that this node decided
	Forwarded  uint64 // questions that it sent to other nodes
	Unanswered uint64 // of its own questions: nobody decided in time
	Lost       uint64 // admissions that count but were not told
	Refused    uint64 // questions of others that were too many
}

// limitCollector says how limits keep their word among nodes. There are two series
// for each policy, of strict ones three.
type limitCollector struct {
	server                *Server
	overshoot, away, lost *prometheus.Desc
	strict                []strictValue
}

type strictValue struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(StrictStats) float64
}

func newLimitCollector(s *Server) *limitCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	c := &limitCollector{
		server:    s,
		overshoot: desc("weir_limit_overshoot_total", "Admissions of a shared limit that were more than its burst within its interval, as this node found when it heard of those of others. Every node finds them: take the largest, not the sum.", "limit"),
		away:      desc("weir_limit_away_total", "Decisions of a strict limit without the node that decides, by what was done: closed (denied), open (admitted) or share (by this node's share); of a shared one without a node that holds the key: own (by what this node itself has admitted). inline/* is all limits that requests bring along.", "limit", "away"),
		lost:      desc("weir_limit_strict_lost_total", "Denied requests that took admissions of limits that other nodes decide anyway, because another limit changed meanwhile."),
	}
	if s.cfg.Strict == nil {
		return c
	}
	add := func(kind prometheus.ValueType, name, help string, read func(StrictStats) float64) {
		c.strict = append(c.strict, strictValue{desc(name, help), kind, read})
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	add(gauge, "weir_strict_groups_held", "Groups of keys, of 16, whose strict limits this node decides.",
		func(s StrictStats) float64 { return float64(s.Held) })
	add(counter, "weir_strict_decided_total", "Questions of strict limits that this node decided.",
		func(s StrictStats) float64 { return float64(s.Decided) })
	add(counter, "weir_strict_forwarded_total", "Questions of strict limits that this node sent to others.",
		func(s StrictStats) float64 { return float64(s.Forwarded) })
	add(counter, "weir_strict_unanswered_total", "Questions of strict limits of this node that nobody decided in time.",
		func(s StrictStats) float64 { return float64(s.Unanswered) })
	add(counter, "weir_strict_untold_total", "Admissions that count but were not told, because the lease or the journal was lost meanwhile.",
		func(s StrictStats) float64 { return float64(s.Lost) })
	add(counter, "weir_strict_refused_total", "Questions of other nodes that were not taken because too many waited for the journal.",
		func(s StrictStats) float64 { return float64(s.Refused) })
	return c
}

func (c *limitCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.overshoot, c.away, c.lost} {
		out <- d
	}
	for _, v := range c.strict {
		out <- v.desc
	}
}

func (c *limitCollector) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	live := c.server.policies
	for _, p := range live.Set().Policies() {
		switch p.Where {
		case weir.WhereShared:
			if l, known := live.Limit(p.Name); known { // else it left the file just now
				counter(c.overshoot, l.Overshoot(), p.Name)
			}
			counter(c.away, live.Away(p.Name).Own, p.Name, policy.AwayOwn.String())
		case weir.WhereStrict:
			n := live.Away(p.Name)
			counter(c.away, n.Closed, p.Name, "closed")
			counter(c.away, n.Open, p.Name, "open")
			counter(c.away, n.Share, p.Name, "share")
		}
	}
	counter(c.away, live.Away(policy.InlineAway).Own, policy.InlineAway, policy.AwayOwn.String())
	counter(c.lost, live.StrictLost())
	if len(c.strict) == 0 {
		return
	}
	stats := c.server.cfg.Strict()
	for _, v := range c.strict {
		out <- prometheus.MustNewConstMetric(v.desc, v.kind, v.read(stats))
	}
}
