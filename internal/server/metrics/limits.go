package metrics

import (
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/policy"
)

// newLimitCollector says how limits keep their word among nodes. There are two
// series for each policy and each limit of a listener that one node decides at a time.
func newLimitCollector(live *admit.Live) *collector {
	const away, lost = "weir_limit_away_total", "weir_limit_strict_lost_total"
	return newCollector([]metric{
		{away, "Decisions of a strict or leased limit without the node that decides, by what was done: closed (denied) or open (admitted). inline/* is all limits that requests bring along.", "limit away"},
		{lost, "Denied requests that took admissions of limits that other nodes decide anyway, because another limit changed meanwhile.", ""},
	}, func(emit emit) {
		of := func(name string) {
			n := live.Away(name)
			emit(away, float64(n.Closed), name, "closed")
			emit(away, float64(n.Open), name, "open")
		}
		for _, p := range live.Set().Policies() {
			if p.Where.ByOne() {
				of(p.Name)
			}
		}
		live.PreparedByOne(of)
		emit(away, float64(live.Away(admit.InlineAway).Closed), admit.InlineAway, policy.AwayClosed.String())
		emit(lost, float64(live.StrictLost()))
	})
}

// newDecisionCollector tells of the decisions of limits. Its names are those that policies
// of this process have had: the engine takes 10,000 at most.
func newDecisionCollector(s *service.Service, policies *admit.Live) *collector {
	return newCollector([]metric{
		{"weir_limit_bans_failed_total", "Keys that deny_for of their policy did not ban, since 100,000 were banned, or the journal was full: their limit goes on denying what is over.", ""},
		{"weir_limit_hits_failed_total", "Decisions that could not be counted as hits of limit:NAME:allowed or :denied, because the journal was behind.", ""},
		{"weir_allow_unmatched_total", "Requests that were allowed because no policy is for any of their keys: a slip in a key or a pattern shows here.", ""},
		{"weir_limit_decisions_total", "Decisions of limits: allowed, denied, shadow_denied by a limit that is not enforced, or excepted from it by their address.", "limit outcome"},
	}, func(emit emit) {
		list, unmatched := s.Decisions()
		emit("weir_allow_unmatched_total", float64(unmatched))
		emit("weir_limit_hits_failed_total", float64(policies.HitsFailed()))
		emit("weir_limit_bans_failed_total", float64(policies.BansFailed()))
		for _, of := range list {
			emit("weir_limit_decisions_total", float64(of.Allowed), of.Limit, "allowed")
			emit("weir_limit_decisions_total", float64(of.Denied), of.Limit, "denied")
			emit("weir_limit_decisions_total", float64(of.ShadowDenied), of.Limit, "shadow_denied")
			emit("weir_limit_decisions_total", float64(of.Excepted), of.Limit, "excepted")
		}
	})
}

// newPolicyFileCollector tells of the file that policies come from.
func newPolicyFileCollector(file *access.PolicyFile) *collector {
	return newCollector([]metric{
		{"weir_policy_reloads_total", "Times that the policy file was read, the start included, by result.", "result"},
		{"weir_policy_file_bad", "1 while the newest policy file is not in use, because it is wrong or can't be read; the policies before it are.", ""},
		{"weir_policy_loaded_timestamp_seconds", "When the policies in use were read.", ""},
	}, func(emit emit) {
		now := file.Stats()
		emit("weir_policy_reloads_total", float64(now.Loads), "ok")
		emit("weir_policy_reloads_total", float64(now.Failures), "failed")
		emit("weir_policy_file_bad", oneIf(now.Trouble != ""))
		emit("weir_policy_loaded_timestamp_seconds", float64(now.Loaded.Unix()))
	})
}

// newKeptCollector tells of policies that were put by API.
func newKeptCollector(stats func() access.KeptStats) *collector {
	return newCollector([]metric{
		{"weir_kept_policies", "Policies that were put by API, by whether they are in use on this node.", "used"},
		{"weir_kept_policies_version", "Version of the newest change to policies by API that this node has. All nodes have the same.", ""},
		{"weir_kept_policies_changes_total", "Changes to policies by API that this node made.", ""},
		{"weir_kept_policies_bad", "1 while a policy that was put by API can't be in use on this node, or the newest ones can't be asked for.", ""},
	}, func(emit emit) {
		now := stats()
		emit("weir_kept_policies", float64(now.Policies-now.Unused), "yes")
		emit("weir_kept_policies", float64(now.Unused), "no")
		emit("weir_kept_policies_version", float64(now.Version))
		emit("weir_kept_policies_changes_total", float64(now.Changes))
		emit("weir_kept_policies_bad", oneIf(now.Bad))
	})
}

// newListenerCollector tells of the listeners other than HTTP. Its series are bounded by the kinds of requests that
// they know. A command that was never sent has no series.
func newListenerCollector(listeners func() []access.ListenerFigures) *collector {
	return newCollector([]metric{
		{"weir_listener_connections", "Open connections.", "listener"},
		{"weir_listener_connections_bound", "Most open connections.", "listener"},
		{"weir_listener_connections_shed_total", "Connections that waited for their client and were closed to let others in.", "listener"},
		{"weir_listener_requests_total", "Requests by command, those that failed among them.", "listener command"},
		{"weir_listener_open", "What is open for longer than a request: streams and buckets of quotas.", "listener kind"},
		{"weir_listener_requests_failed_total", "Requests that were answered with an error.", "listener"},
		{"weir_listener_counters", "Counters with an expiry, including expired ones that were not removed yet.", "listener"},
		{"weir_listener_counters_bytes", "Memory of these counters.", "listener"},
		{"weir_listener_counters_bytes_bound", "Most memory of these counters.", "listener"},
		{"weir_listener_counters_refused_total", "New counters that there was no memory for.", "listener"},
		{"weir_listener_lag_messages", "Messages of a topic (--from) after those that this node counted, of the partitions that it reads.", "listener"},
		{"weir_listener_rejected_total", "Lines or messages that were not counted, by reason.", "listener reason"},
		{"weir_listener_datagrams_total", "Datagrams received.", "listener"},
		{"weir_listener_datagrams_dropped_total", "Datagrams that the kernel dropped because the buffer was full.", "listener"},
	}, func(emit emit) {
		for _, f := range listeners() {
			emit("weir_listener_connections", float64(f.Open), f.Name)
			emit("weir_listener_connections_bound", float64(f.Bound), f.Name)
			emit("weir_listener_connections_shed_total", float64(f.Shed), f.Name)
			for _, r := range f.Requests {
				if r.Count > 0 {
					emit("weir_listener_requests_total", float64(r.Count), f.Name, r.Kind)
				}
			}
			for _, r := range f.Now {
				emit("weir_listener_open", float64(r.Count), f.Name, r.Kind)
			}
			emit("weir_listener_requests_failed_total", float64(f.Failed), f.Name)
			for _, r := range f.Rejected {
				if r.Count > 0 {
					emit("weir_listener_rejected_total", float64(r.Count), f.Name, r.Kind)
				}
			}
			if f.Lag != nil {
				emit("weir_listener_lag_messages", float64(*f.Lag), f.Name)
			}
			if p := f.Packets; p != nil {
				emit("weir_listener_datagrams_total", float64(p.Received), f.Name)
				if p.Known {
					emit("weir_listener_datagrams_dropped_total", float64(p.Dropped), f.Name)
				}
			}
			emit("weir_listener_counters", float64(f.Keys), f.Name)
			emit("weir_listener_counters_bytes", float64(f.Bytes), f.Name)
			emit("weir_listener_counters_bytes_bound", float64(f.BytesBound), f.Name)
			emit("weir_listener_counters_refused_total", float64(f.Refused), f.Name)
		}
	})
}

// newConnCollector tells of the connections of a listener; of nil, that there is none of ours.
func newConnCollector(of func() *listener.Listener) *collector {
	return newCollector([]metric{
		{"weir_connections", "Open connections.", ""},
		{"weir_connections_bound", "Most open connections.", ""},
		{"weir_connections_shed_total", "Connections that waited for their client and were closed to let others in.", ""},
	}, func(emit emit) {
		if conns := of(); conns != nil {
			open, shed := conns.Count()
			emit("weir_connections", float64(open))
			emit("weir_connections_bound", float64(conns.Bound()))
			emit("weir_connections_shed_total", float64(shed))
		}
	})
}
