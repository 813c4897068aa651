package metrics

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/service/queries"
)

// scrapeTime bounds the questions of a scrape to other nodes.
const scrapeTime = time.Second

// newClusterCollector says of each node how much of it is counted here. There are as
// many series as nodes.
func newClusterCollector(of queries.Cluster) *collector {
	return newCollector([]metric{
		{"weir_cluster_nodes", "Nodes that count together, by state: here, late (newer hits may be missing) or left (stopped, all its hits are counted).", "state"},
		{"weir_cluster_node_late", "1 for a late node: its newer hits may be missing.", "node"},
		{"weir_cluster_node_lag_seconds", "Seconds since when hits of a node may be missing here, by its clock. An idle node sends a message once a second.", "node"},
		{"weir_cluster_node_heard_seconds", "Seconds since the last message of a node.", "node"},
		{"weir_cluster_partitions_held", "Partitions that a node holds and answers for, as it last said.", "node"},
		{"weir_cluster_partitions_unheld", "Partitions that no running node holds: questions about their keys are answered 503.", ""},
		{"weir_cluster_clock_skew_seconds", "Seconds that a node's clock is ahead of this one's.", "node"},
	}, func(emit emit) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
		defer cancel()
		nodes := of.Nodes(ctx)
		now, states, named := time.Now(), map[string]float64{"here": 0, "late": 0, "left": 0}, map[string]bool{}
		for _, n := range nodes {
			switch {
			case n.Left:
				states["left"]++
			case n.Late:
				states["late"]++
			default:
				states["here"]++
			}
			if n.Left || named[n.Node] {
				continue
			}
			named[n.Node] = true // two of one name are a mistake, and no reason to have no metrics
			emit("weir_cluster_partitions_held", float64(n.Held), n.Node)
			if n.Self {
				continue
			}
			emit("weir_cluster_node_late", oneIf(n.Late), n.Node)
			emit("weir_cluster_node_lag_seconds", n.LagS, n.Node)
			emit("weir_cluster_node_heard_seconds", now.Sub(n.Heard.Time).Seconds(), n.Node)
			if n.SkewS != nil {
				emit("weir_cluster_clock_skew_seconds", *n.SkewS, n.Node)
			}
		}
		emit("weir_cluster_partitions_unheld", float64(of.Unheld()))
		for state, n := range states {
			emit("weir_cluster_nodes", n, state)
		}
	})
}

// newAlarmCollector has one series for each code that is on.
func newAlarmCollector(alarms func() []api.Alarm) *collector {
	return newCollector([]metric{
		{"weir_alarm", "1 while something is wrong: /readyz says what. There is no series while nothing is.", "code"},
	}, func(emit emit) {
		said := map[string]bool{}
		for _, a := range alarms() {
			if !said[a.Code] { // there may be one for each of several nodes
				said[a.Code] = true
				emit("weir_alarm", 1, a.Code)
			}
		}
	})
}
