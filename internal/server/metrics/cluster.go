package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/service/backend"
)

// clusterCollector says of each node how much of it is counted here. There are as
// many series as nodes.
type clusterCollector struct {
	cluster                        backend.Cluster
	nodes, late, lag, heard, ahead *prometheus.Desc
	held, unheld                   *prometheus.Desc
}

func newClusterCollector(of backend.Cluster) *clusterCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &clusterCollector{
		cluster: of,
		nodes:   desc("weir_cluster_nodes", "Nodes that count together, by state: here, late (newer hits may be missing) or left (stopped, all its hits are counted).", "state"),
		late:    desc("weir_cluster_node_late", "1 for a late node: its newer hits may be missing.", "node"),
		lag:     desc("weir_cluster_node_lag_seconds", "Seconds since when hits of a node may be missing here, by its clock. An idle node sends a message once a second.", "node"),
		heard:   desc("weir_cluster_node_heard_seconds", "Seconds since the last message of a node.", "node"),
		held:    desc("weir_cluster_partitions_held", "Partitions that a node holds and answers for, as it last said.", "node"),
		unheld:  desc("weir_cluster_partitions_unheld", "Partitions that no running node holds: questions about their keys are answered 503."),
		ahead:   desc("weir_cluster_clock_skew_seconds", "Seconds that a node's clock is ahead of this one's.", "node"),
	}
}

func (c *clusterCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.nodes, c.late, c.lag, c.heard, c.ahead, c.held, c.unheld} {
		out <- d
	}
}

// scrapeTime bounds the question for clocks.
const scrapeTime = time.Second

func (c *clusterCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	clocks := c.cluster.Skews(ctx)
	gauge := func(desc *prometheus.Desc, value float64, label string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
	}
	now, states, named := time.Now(), map[string]float64{"here": 0, "late": 0, "left": 0}, map[string]bool{}
	for _, n := range c.cluster.Nodes() {
		switch {
		case n.Left:
			states["left"]++
		case n.Late:
			states["late"]++
		default:
			states["here"]++
		}
		if n.Left || named[n.Name] {
			continue
		}
		named[n.Name] = true // two of one name are a mistake, and no reason to have no metrics
		gauge(c.held, float64(n.Held), n.Name)
		if n.Self {
			continue
		}
		gauge(c.late, oneIf(n.Late), n.Name)
		gauge(c.lag, n.Lag(now), n.Name)
		gauge(c.heard, now.Sub(n.Heard).Seconds(), n.Name)
		if skew, ok := clocks[n.Origin]; ok {
			gauge(c.ahead, skew.Ahead.Seconds(), n.Name)
		}
	}
	out <- prometheus.MustNewConstMetric(c.unheld, prometheus.GaugeValue, float64(c.cluster.Unheld()))
	for state, n := range states {
		gauge(c.nodes, n, state)
	}
}

// newLeasedFigures are the figures of leased limits.
func newLeasedFigures(stats func() backend.LeasedStats) *figures[backend.LeasedStats] {
	f := &figures[backend.LeasedStats]{stats: stats}
	f.add(counter, "weir_leased_local_total", "Decisions under leased limits that this node made itself, within its quota lease or from a recent answer of the owner.",
		func(s backend.LeasedStats) float64 { return float64(s.Local) })
	f.add(counter, "weir_leased_messages_total", "Messages about leased limits that this node sent to owners, itself included: decisions, grants and reports of usage.",
		func(s backend.LeasedStats) float64 { return float64(s.Asked) })
	f.add(counter, "weir_leased_served_total", "Such messages that this node answered.",
		func(s backend.LeasedStats) float64 { return float64(s.Served) })
	f.add(counter, "weir_leased_short_total", "Denials while the owner or other nodes had unused quota: an upper bound of the requests that a single node would have admitted.",
		func(s backend.LeasedStats) float64 { return float64(s.Short) })
	f.add(gauge, "weir_leased_keys", "Keys of leased limits that this node was asked for lately.",
		func(s backend.LeasedStats) float64 { return float64(s.Keys) })
	f.add(gauge, "weir_leased_lent", "Unused admissions in the quota leases of this node.",
		func(s backend.LeasedStats) float64 { return float64(s.Lent) })
	f.add(gauge, "weir_leased_out", "Admissions that this node or an earlier owner has granted, and that count as used.",
		func(s backend.LeasedStats) float64 { return float64(s.Out) })
	return f
}

// alarmCollector has one series for each code that is on.
type alarmCollector struct {
	alarms func() []api.Alarm
	desc   *prometheus.Desc
}

func newAlarmCollector(alarms func() []api.Alarm) *alarmCollector {
	return &alarmCollector{alarms, prometheus.NewDesc("weir_alarm", "1 while something is wrong: /readyz says what. There is no series while nothing is.", []string{"code"}, nil)}
}

func (c *alarmCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

func (c *alarmCollector) Collect(out chan<- prometheus.Metric) {
	said := map[string]bool{}
	for _, a := range c.alarms() {
		if !said[a.Code] { // there may be one for each of several nodes
			said[a.Code] = true
			out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, 1, a.Code)
		}
	}
}
