package metrics

import (
	"context"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/policy"
)

// scrapeTime bounds the questions of a scrape to other nodes.
const scrapeTime = time.Second

// newClusterCollector says for each node how much of its hits is counted here. There are as many series as nodes.
func newClusterCollector(cluster queries.Cluster) *collector {
	return newCollector([]metric{
		{"weir_cluster_nodes", "Nodes that count together, by state: here, late (newer hits may be missing) or left (stopped, all its hits are counted).", "state"},
		{"weir_cluster_node_late", "1 for a late node: its newer hits may be missing.", "node"},
		{"weir_cluster_node_lag_seconds", "Seconds since when hits of a node may be missing here, by its clock. An idle node sends a message once a second.", "node"},
		{"weir_cluster_node_heard_seconds", "Seconds since the last message of a node.", "node"},
		{"weir_cluster_partitions_held", "Partitions that a node holds and answers for, by its last report.", "node"},
		{"weir_cluster_partitions_unheld", "Partitions that no running node holds: queries about their keys fail with 503.", ""},
		{"weir_cluster_clock_skew_seconds", "Seconds that a node's clock is ahead of this one's.", "node"},
	}, func(emit emit) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
		defer cancel()
		nodes := cluster.Nodes(ctx)
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
			named[n.Node] = true // two nodes of one name are a mistake, but must not cost all metrics
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
		emit("weir_cluster_partitions_unheld", float64(cluster.Unheld()))
		for state, n := range states {
			emit("weir_cluster_nodes", n, state)
		}
	})
}

// newAlarmCollector has one series for each code of a current alarm.
func newAlarmCollector(alarms func() []api.Alarm) *collector {
	return newCollector([]metric{
		{"weir_alarm", "1 for each current alarm; /readyz describes it. Absent while there is none.", "code"},
	}, func(emit emit) {
		seen := map[string]bool{}
		for _, a := range alarms() {
			if !seen[a.Code] { // there may be one for each of several nodes
				seen[a.Code] = true
				emit("weir_alarm", 1, a.Code)
			}
		}
	})
}

// newRegionCollector says for each region how much of its hits is counted here. There are as many series as regions and links.
func newRegionCollector(regions queries.Regions) *collector {
	return newCollector([]metric{
		{"weir_region_late", "1 for a region of which newer hits may be missing.", "region"},
		{"weir_region_age_seconds", "Seconds since when hits of a region may be missing here, by its clock.", "region"},
		{"weir_region_lag_seconds", "Seconds from the time up to which a region's last digest has hits until its arrival.", "region"},
		{"weir_region_digest_bytes_total", "Bytes of a region's digests and bases in the log.", "region"},
		{"weir_region_audit_wrong_total", "Batches of a region whose running total was not the next one: 0, unless something is lost.", "region"},
		{"weir_region_digest", "Number of the last digest of a region in its epoch.", "region"},
		{"weir_region_link_up", "1 for a link that is up. Only the owner has links.", "region"},
		{"weir_region_link_received_bytes_total", "Bytes that came over a link.", "region"},
		{"weir_region_link_retries_total", "Failed attempts to connect a link.", "region"},
		{"weir_region_owner", "1 on the node that writes the region's digests and has its links.", ""},
		{"weir_region_feeds", "Other regions that pull from this node now.", ""},
		{"weir_region_feed_bytes_total", "Bytes sent to another region.", "region"},
		{"weir_region_feed_behind", "Messages of the log that are still to be sent to another region.", "region"},
		{"weir_region_log_damaged_total", "Messages of the log of digests that could not be read.", ""},
		{"weir_region_journal_unread_total", "Parts of flushes that the journal lost, and no digest has.", ""},
		{"weir_region_log_uncounted_total", "Messages that the windows of other regions could not take.", ""},
	}, func(emit emit) {
		all := regions.Status()
		for _, r := range all.Regions {
			if r.Gone {
				continue
			}
			emit("weir_region_late", oneIf(r.Late), r.Region)
			if r.Epoch == 0 {
				continue
			}
			emit("weir_region_age_seconds", time.Since(r.AsOf.Time).Seconds(), r.Region)
			emit("weir_region_lag_seconds", r.LagS, r.Region)
			emit("weir_region_digest_bytes_total", float64(r.Bytes), r.Region)
			emit("weir_region_audit_wrong_total", float64(r.Wrong), r.Region)
			emit("weir_region_digest", float64(r.Digest), r.Region)
		}
		if all.Owner {
			for _, l := range all.Links {
				emit("weir_region_link_up", oneIf(l.Up), l.Region)
				emit("weir_region_link_received_bytes_total", float64(l.Bytes), l.Region)
				emit("weir_region_link_retries_total", float64(l.Retries), l.Region)
			}
		}
		emit("weir_region_owner", oneIf(all.Owner))
		emit("weir_region_feeds", float64(all.Feeds))
		for _, p := range all.Pulls {
			emit("weir_region_feed_bytes_total", float64(p.Bytes), p.Region)
			emit("weir_region_feed_behind", float64(p.Behind), p.Region)
		}
		emit("weir_region_log_damaged_total", float64(all.Damaged))
		emit("weir_region_journal_unread_total", float64(all.Unread))
		emit("weir_region_log_uncounted_total", float64(all.Missing))
	})
}

// newLimitCollector says how limits keep their word among nodes. There are two
// series for each policy and each limit of a listener that one node decides at a time.
func newLimitCollector(live *admit.Live) *collector {
	const away, lost = "weir_limit_away_total", "weir_limit_strict_lost_total"
	return newCollector([]metric{
		{away, "Decisions of a strict or leased limit without the node that decides, by what was done: closed (denied) or open (admitted). inline/* is all limits that requests bring along.", "limit away"},
		{lost, "Denied requests that took admissions of limits that other nodes decide anyway, because another limit changed meanwhile.", ""},
	}, func(emit emit) {
		emitAway := func(name string) {
			n := live.Away(name)
			emit(away, float64(n.Closed), name, "closed")
			emit(away, float64(n.Open), name, "open")
		}
		for _, p := range live.Set().Policies() {
			if p.Where.ByOne() {
				emitAway(p.Name)
			}
		}
		live.PreparedByOne(emitAway)
		emit(away, float64(live.Away(admit.InlineAway).Closed), admit.InlineAway, policy.AwayClosed.String())
		emit(lost, float64(live.StrictLost()))
	})
}

// newDecisionCollector tells of decisions that activity.OutcomeFigures does not have.
func newDecisionCollector(s *service.Service, policies *admit.Live) *collector {
	return newCollector([]metric{
		{"weir_limit_bans_failed_total", "Keys that deny_for did not ban because 100,000 were banned or the journal was full. Their limit still applies.", ""},
		{"weir_limit_hits_failed_total", "Decisions that could not be counted as hits of limit:NAME:allowed or :denied, because the journal was behind.", ""},
		{"weir_allow_unmatched_total", "Requests that were allowed because no policy matches their keys. A mistake in a key or pattern shows here.", ""},
	}, func(emit emit) {
		_, unmatched := s.Decisions()
		emit("weir_allow_unmatched_total", float64(unmatched))
		emit("weir_limit_hits_failed_total", float64(policies.HitsFailed()))
		emit("weir_limit_bans_failed_total", float64(policies.BansFailed()))
	})
}

// newRequestCollector tells of the requests of listeners other than HTTP. Its series are bounded by the kinds of requests that
// they know. A command that was never sent has no series.
func newRequestCollector(listeners func() []access.ListenerFigures) *collector {
	return newCollector([]metric{
		{"weir_listener_requests_total", "Requests by command, including failed ones.", "listener command"},
		{"weir_listener_open", "What is open for longer than a request: streams and buckets of quotas.", "listener kind"},
		{"weir_listener_rejected_total", "Lines or messages that were not counted, by reason.", "listener reason"},
	}, func(emit emit) {
		for _, f := range listeners() {
			for name, list := range map[string][]access.ListenerRequests{"weir_listener_requests_total": f.Requests, "weir_listener_rejected_total": f.Rejected} {
				for _, r := range list {
					if r.Count > 0 {
						emit(name, float64(r.Count), f.Name, r.Kind)
					}
				}
			}
			for _, r := range f.Now {
				emit("weir_listener_open", float64(r.Count), f.Name, r.Kind)
			}
		}
	})
}
