package metrics

import "github.com/weir-counter/weir/service"

// newRequestCollector tells what became of requests of hits.
func newRequestCollector(stats func() service.RequestStats) *figures[service.RequestStats] {
	c := &figures[service.RequestStats]{stats: stats}
	c.add(counter, "weir_rejected_lines_total", "Hits, at any door, that were not understood or not allowed: lines of POST /v1/hits, or keys of RESP commands.",
		func(s service.RequestStats) float64 { return float64(s.Rejected) })
	c.add(counter, "weir_overloaded_lines_total", "Hits, at any door, that were refused because the journal was behind.",
		func(s service.RequestStats) float64 { return float64(s.Overloaded) })
	c.add(counter, "weir_idempotent_replays_total", "Requests that came again under their Idempotency-Key, and counted nothing.",
		func(s service.RequestStats) float64 { return float64(s.Replayed) })
	c.add(counter, "weir_not_durable_requests_total", "Durable requests whose hits were counted, but not on disk in time.",
		func(s service.RequestStats) float64 { return float64(s.NotDurable) })
	return c
}
