package metrics

import (
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/policy"
)

// newLimitCollector says how limits keep their word among nodes. There are three
// series for each policy and each limit of a listener that one node decides at a time.
func newLimitCollector(live *admit.Live) *collector {
	const away, lost = "weir_limit_away_total", "weir_limit_strict_lost_total"
	return newCollector([]metric{
		{away, "Decisions of a strict or leased limit without the node that decides, by what was done: closed (denied), open (admitted) or share (by this node's share). inline/* is all limits that requests bring along.", "limit away"},
		{lost, "Denied requests that took admissions of limits that other nodes decide anyway, because another limit changed meanwhile.", ""},
	}, func(emit emit) {
		of := func(name string) {
			n := live.Away(name)
			emit(away, float64(n.Closed), name, "closed")
			emit(away, float64(n.Open), name, "open")
			emit(away, float64(n.Share), name, "share")
		}
		for _, p := range live.Set().Policies() {
			if p.ByOne() {
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
		{"weir_limit_decisions_total", "Decisions of limits: allowed, denied, or shadow_denied by a limit that is not enforced.", "limit outcome"},
	}, func(emit emit) {
		list, unmatched := s.Decisions()
		emit("weir_allow_unmatched_total", float64(unmatched))
		emit("weir_limit_hits_failed_total", float64(policies.HitsFailed()))
		emit("weir_limit_bans_failed_total", float64(policies.BansFailed()))
		for _, of := range list {
			emit("weir_limit_decisions_total", float64(of.Allowed), of.Limit, "allowed")
			emit("weir_limit_decisions_total", float64(of.Denied), of.Limit, "denied")
			emit("weir_limit_decisions_total", float64(of.ShadowDenied), of.Limit, "shadow_denied")
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
