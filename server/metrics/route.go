package metrics

import "github.com/weir-counter/weir/service/backend"

func newRouteCollector(stats func() backend.RouteStats) *figures[backend.RouteStats] {
	c := &figures[backend.RouteStats]{stats: stats}
	add := c.add
	add(counter, "weir_route_asked_total", "Questions put to other nodes, again where one did not answer.",
		func(s backend.RouteStats) float64 { return float64(s.Asked) })
	add(counter, "weir_route_joined_total", "Questions that waited for the answer to an equal one, and were not sent.",
		func(s backend.RouteStats) float64 { return float64(s.Joined) })
	add(counter, "weir_route_repeated_total", "Questions answered by what an equal one was told within a flush interval before.",
		func(s backend.RouteStats) float64 { return float64(s.Repeated) })
	add(counter, "weir_route_requests_total", "Messages with questions to other nodes.",
		func(s backend.RouteStats) float64 { return float64(s.Requests) })
	add(counter, "weir_route_failed_requests_total", "Messages with questions that were not answered in time, or not understood: the next holder was asked.",
		func(s backend.RouteStats) float64 { return float64(s.Failed) })
	add(counter, "weir_route_unanswered_total", "Questions that no holder answered in time: any is an alarm.",
		func(s backend.RouteStats) float64 { return float64(s.Unanswered) })
	add(counter, "weir_route_refused_total", "Questions that were not asked because too many waited for other nodes.",
		func(s backend.RouteStats) float64 { return float64(s.Refused) })
	add(counter, "weir_route_served_total", "Questions of other nodes that this node answered.",
		func(s backend.RouteStats) float64 { return float64(s.Served) })
	add(counter, "weir_route_dropped_total", "Messages of other nodes that this node did not answer, because they had waited for too long or were too many.",
		func(s backend.RouteStats) float64 { return float64(s.Dropped) })
	add(counter, "weir_route_decisions_total", "Decisions of shared limits that were put to nodes that hold the key.",
		func(s backend.RouteStats) float64 { return float64(s.Decisions) })
	add(counter, "weir_route_undecided_total", "Decisions of shared limits that no holder made in time: this node did, by what it has admitted itself.",
		func(s backend.RouteStats) float64 { return float64(s.Undecided) })
	add(gauge, "weir_route_asking", "Questions and decisions that wait for other nodes now.",
		func(s backend.RouteStats) float64 { return float64(s.Asking) })
	return c
}
