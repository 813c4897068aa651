package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service/backend"
)

// limitCollector says how limits keep their word among nodes. There are two series
// for each policy, of strict ones three.
type limitCollector struct {
	policies              *admit.Live
	overshoot, away, lost *prometheus.Desc
	strict                *figures[backend.StrictStats] // nil: nodes decide no strict limits for each other
	leased                *figures[backend.LeasedStats] // nil: they lend each other nothing
}

func newLimitCollector(policies *admit.Live, stats func() backend.StrictStats, leased func() backend.LeasedStats) *limitCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	c := &limitCollector{
		policies:  policies,
		overshoot: desc("weir_limit_overshoot_total", "Admissions of a shared limit that were more than its burst within its interval, as this node found when it heard of those of others. Every node finds them: take the largest, not the sum.", "limit"),
		away:      desc("weir_limit_away_total", "Decisions of a strict or leased limit without the node that decides, by what was done: closed (denied), open (admitted) or share (by this node's share); of a shared one without a node that holds the key: own (by what this node itself has admitted). inline/* is all limits that requests bring along.", "limit", "away"),
		lost:      desc("weir_limit_strict_lost_total", "Denied requests that took admissions of limits that other nodes decide anyway, because another limit changed meanwhile."),
	}
	if leased != nil {
		c.leased = newLeasedFigures(leased)
	}
	if stats == nil {
		return c
	}
	c.strict = &figures[backend.StrictStats]{stats: stats}
	add := c.strict.add
	add(gauge, "weir_strict_groups_held", "Groups of keys, of 16, whose strict limits this node decides.",
		func(s backend.StrictStats) float64 { return float64(s.Held) })
	add(counter, "weir_strict_decided_total", "Questions of strict limits that this node decided.",
		func(s backend.StrictStats) float64 { return float64(s.Decided) })
	add(counter, "weir_strict_forwarded_total", "Questions of strict limits that this node sent to others.",
		func(s backend.StrictStats) float64 { return float64(s.Forwarded) })
	add(counter, "weir_strict_unanswered_total", "Questions of strict limits of this node that nobody decided in time.",
		func(s backend.StrictStats) float64 { return float64(s.Unanswered) })
	add(counter, "weir_strict_untold_total", "Admissions that count but were not told, because the lease or the journal was lost meanwhile.",
		func(s backend.StrictStats) float64 { return float64(s.Lost) })
	add(counter, "weir_strict_refused_total", "Questions of other nodes that were not taken because too many waited for the journal.",
		func(s backend.StrictStats) float64 { return float64(s.Refused) })
	return c
}

func (c *limitCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.overshoot, c.away, c.lost} {
		out <- d
	}
	if c.strict != nil {
		c.strict.Describe(out)
	}
	if c.leased != nil {
		c.leased.Describe(out)
	}
}

func (c *limitCollector) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	live := c.policies
	for _, p := range live.Set().Policies() {
		switch p.Where {
		case limit.WhereShared:
			if l, known := live.Limit(p.Name); known { // else it left the file just now
				counter(c.overshoot, limits.Overshoot(l), p.Name)
			}
			counter(c.away, live.Away(p.Name).Own, p.Name, policy.AwayOwn.String())
		case limit.WhereStrict, limit.WhereLeased:
			n := live.Away(p.Name)
			counter(c.away, n.Closed, p.Name, "closed")
			counter(c.away, n.Open, p.Name, "open")
			counter(c.away, n.Share, p.Name, "share")
		}
	}
	counter(c.away, live.Away(admit.InlineAway).Own, admit.InlineAway, policy.AwayOwn.String())
	counter(c.lost, live.StrictLost())
	if c.strict != nil {
		c.strict.Collect(out)
	}
	if c.leased != nil {
		c.leased.Collect(out)
	}
}
