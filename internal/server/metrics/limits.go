package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/backend"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/policy"
)

// limitCollector says how limits keep their word among nodes. There are two series
// for each policy, of strict ones three.
type limitCollector struct {
	policies   *admit.Live
	away, lost *prometheus.Desc
	strict     *figures[backend.StrictStats] // nil: nodes decide no strict limits for each other
	leased     *figures[backend.LeasedStats] // nil: they lend each other nothing
}

func newLimitCollector(policies *admit.Live, stats func() backend.StrictStats, leased func() backend.LeasedStats) *limitCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	c := &limitCollector{
		policies: policies,
		away:     desc("weir_limit_away_total", "Decisions of a strict or leased limit without the node that decides, by what was done: closed (denied), open (admitted) or share (by this node's share). inline/* is all limits that requests bring along.", "limit", "away"),
		lost:     desc("weir_limit_strict_lost_total", "Denied requests that took admissions of limits that other nodes decide anyway, because another limit changed meanwhile."),
	}
	if leased != nil {
		c.leased = newLeasedFigures(leased)
	}
	if stats == nil {
		return c
	}
	c.strict = &figures[backend.StrictStats]{stats: stats}
	add := c.strict.add
	add(gauge, "weir_strict_groups_held", "Groups of keys, of 16, that this node owns: it decides their limits.",
		func(s backend.StrictStats) float64 { return float64(s.Held) })
	add(counter, "weir_strict_decided_total", "Questions of limits that this node decided.",
		func(s backend.StrictStats) float64 { return float64(s.Decided) })
	add(counter, "weir_strict_forwarded_total", "Questions of limits that this node sent to others.",
		func(s backend.StrictStats) float64 { return float64(s.Forwarded) })
	add(counter, "weir_strict_unanswered_total", "Questions of limits of this node that nobody decided in time.",
		func(s backend.StrictStats) float64 { return float64(s.Unanswered) })
	add(counter, "weir_strict_untold_total", "Admissions that count but were not answered, because the lease or the journal was lost meanwhile.",
		func(s backend.StrictStats) float64 { return float64(s.Lost) })
	add(counter, "weir_strict_refused_total", "Questions of other nodes that were not taken because too many waited for the journal.",
		func(s backend.StrictStats) float64 { return float64(s.Refused) })
	return c
}

func (c *limitCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.away, c.lost} {
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
		if p.ByOne() {
			n := live.Away(p.Name)
			counter(c.away, n.Closed, p.Name, "closed")
			counter(c.away, n.Open, p.Name, "open")
			counter(c.away, n.Share, p.Name, "share")
		}
	}
	counter(c.away, live.Away(admit.InlineAway).Closed, admit.InlineAway, policy.AwayClosed.String())
	counter(c.lost, live.StrictLost())
	if c.strict != nil {
		c.strict.Collect(out)
	}
	if c.leased != nil {
		c.leased.Collect(out)
	}
}

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

// policyFileCollector tells of the file that policies come from.
type policyFileCollector struct {
	file                *access.PolicyFile
	reloads, bad, since *prometheus.Desc
}

func newPolicyFileCollector(file *access.PolicyFile) *policyFileCollector {
	return &policyFileCollector{
		file:    file,
		reloads: prometheus.NewDesc("weir_policy_reloads_total", "Times that the policy file was read, the start included, by result.", []string{"result"}, nil),
		bad:     prometheus.NewDesc("weir_policy_file_bad", "1 while the newest policy file is not in use, because it is wrong or can't be read; the policies before it are.", nil, nil),
		since:   prometheus.NewDesc("weir_policy_loaded_timestamp_seconds", "When the policies in use were read.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *policyFileCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.reloads
	out <- c.bad
	out <- c.since
}

// Collect implements prometheus.Collector.
func (c *policyFileCollector) Collect(out chan<- prometheus.Metric) {
	now := c.file.Stats()
	out <- prometheus.MustNewConstMetric(c.reloads, prometheus.CounterValue, float64(now.Loads), "ok")
	out <- prometheus.MustNewConstMetric(c.reloads, prometheus.CounterValue, float64(now.Failures), "failed")
	out <- prometheus.MustNewConstMetric(c.bad, prometheus.GaugeValue, oneIf(now.Trouble != ""))
	out <- prometheus.MustNewConstMetric(c.since, prometheus.GaugeValue, float64(now.Loaded.Unix()))
}

// keptCollector tells of policies that were put by API.
type keptCollector struct {
	stats                           func() access.KeptStats
	policies, version, changes, bad *prometheus.Desc
}

func newKeptCollector(stats func() access.KeptStats) *keptCollector {
	return &keptCollector{
		stats:    stats,
		policies: prometheus.NewDesc("weir_kept_policies", "Policies that were put by API, by whether they are in use on this node.", []string{"used"}, nil),
		version:  prometheus.NewDesc("weir_kept_policies_version", "Version of the newest change to policies by API that this node has. All nodes have the same.", nil, nil),
		changes:  prometheus.NewDesc("weir_kept_policies_changes_total", "Changes to policies by API that this node made.", nil, nil),
		bad:      prometheus.NewDesc("weir_kept_policies_bad", "1 while a policy that was put by API can't be in use on this node, or the newest ones can't be asked for.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *keptCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.policies
	out <- c.version
	out <- c.changes
	out <- c.bad
}

// Collect implements prometheus.Collector.
func (c *keptCollector) Collect(out chan<- prometheus.Metric) {
	now := c.stats()
	out <- prometheus.MustNewConstMetric(c.policies, prometheus.GaugeValue, float64(now.Policies-now.Unused), "yes")
	out <- prometheus.MustNewConstMetric(c.policies, prometheus.GaugeValue, float64(now.Unused), "no")
	out <- prometheus.MustNewConstMetric(c.version, prometheus.GaugeValue, float64(now.Version))
	out <- prometheus.MustNewConstMetric(c.changes, prometheus.CounterValue, float64(now.Changes))
	out <- prometheus.MustNewConstMetric(c.bad, prometheus.GaugeValue, oneIf(now.Bad))
}

// newWarningCollector tells of the warnings that are sent to an address.
func newWarningCollector(stats func() limits.WarningFigures) *figures[limits.WarningFigures] {
	c := &figures[limits.WarningFigures]{stats: stats}
	c.add(counter, "weir_warnings_sent_total", "Warnings of limits that --warn-url took.",
		func(f limits.WarningFigures) float64 { return float64(f.Sent) })
	c.add(counter, "weir_warnings_failed_total", "Warnings of limits that were given up: --warn-url refused them, or took none for ten minutes.",
		func(f limits.WarningFigures) float64 { return float64(f.Failed) })
	c.add(counter, "weir_warnings_dropped_total", "Decisions whose warning found no place in the queue: the next one of the key tries again.",
		func(f limits.WarningFigures) float64 { return float64(f.Dropped) })
	c.add(gauge, "weir_warnings_waiting", "Warnings of limits that wait to be sent, at most 1,024.",
		func(f limits.WarningFigures) float64 { return float64(f.Waiting) })
	return c
}
