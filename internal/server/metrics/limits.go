package metrics

import (
	"github.com/weir-counter/weir/internal/admit"
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
