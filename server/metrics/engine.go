package metrics

import (
	weir "github.com/weir-counter/weir"
)

func newEngineCollector(stats func() weir.Stats) *figures[weir.Stats] {
	c := &figures[weir.Stats]{stats: stats}
	add := c.add
	add(counter, "weir_hits_total", "Hits counted, late ones included, and decisions of limits not.",
		func(s weir.Stats) float64 { return float64(s.Hits) })
	add(counter, "weir_late_hits_total", "Hits counted that were older than the newest of their key.",
		func(s weir.Stats) float64 { return float64(s.Late) })
	add(counter, "weir_too_late_hits_total", "Hits not counted: older than the retention.",
		func(s weir.Stats) float64 { return float64(s.TooLate) })
	add(counter, "weir_history_hits_total", "Hits older than the retention, which the history has and no window: not among weir_hits_total.",
		func(s weir.Stats) float64 { return float64(s.ForHistory) })
	add(counter, "weir_too_far_ahead_hits_total", "Hits refused: too far in the future.",
		func(s weir.Stats) float64 { return float64(s.TooFarAhead) })
	add(counter, "weir_quarantined_hits_total", "Hits of other nodes, snapshots or older lives, minutes and more ahead of this node's clock: they count when their second comes.",
		func(s weir.Stats) float64 { return float64(s.Quarantined) })
	add(gauge, "weir_clock_correction_seconds", "Seconds added to this machine's time of day, since most other nodes say that it is wrong by as much.",
		func(s weir.Stats) float64 { return s.ClockCorrection.Seconds() })
	add(gauge, "weir_limit_clock_behind_seconds", "Seconds by which the time of day has run ahead of the clock that limits are kept by since the start: it was set, or the machine was stopped. Limits are not wrong by it.",
		func(s weir.Stats) float64 { return s.LimitClockBehind.Seconds() })
	add(gauge, "weir_keys", "Keys held.",
		func(s weir.Stats) float64 { return float64(s.Keys) })
	add(gauge, "weir_hot_keys", "Keys held that keep slots instead of single hits.",
		func(s weir.Stats) float64 { return float64(s.HotKeys) })
	add(counter, "weir_evicted_keys_total", "Keys dropped to keep the memory budget.",
		func(s weir.Stats) float64 { return float64(s.EvictedKeys) })
	add(counter, "weir_evicted_hits_total", "Hits that left with evicted keys.",
		func(s weir.Stats) float64 { return float64(s.EvictedHits) })
	add(counter, "weir_expired_keys_total", "Keys dropped because all their hits were older than the retention.",
		func(s weir.Stats) float64 { return float64(s.ExpiredKeys) })
	add(gauge, "weir_memory_bytes", "Memory of the keys, as the budget counts it.",
		func(s weir.Stats) float64 { return float64(s.Bytes) })
	add(gauge, "weir_memory_budget_bytes", "The memory budget.",
		func(s weir.Stats) float64 { return float64(s.MemoryBudget) })
	add(gauge, "weir_waiting_deltas", "Hits that wait for the journal, one for each key and second.",
		func(s weir.Stats) float64 { return float64(s.Waiting) })
	add(gauge, "weir_limit_states", "Keys with limits in use, counted for each limit, and some that are no longer.",
		func(s weir.Stats) float64 { return float64(s.LimitStates) })
	add(gauge, "weir_limit_bytes", "Memory of these, as the budget of limits counts it.",
		func(s weir.Stats) float64 { return float64(s.LimitBytes) })
	add(counter, "weir_limit_refused_total", "Requests that no limit was asked for, because the memory of limits was full of limits in use.",
		func(s weir.Stats) float64 { return float64(s.LimitRefused) })
	add(gauge, "weir_limit_budget_bytes", "The budget of weir_limit_bytes.",
		func(s weir.Stats) float64 { return float64(s.LimitBudget) })
	add(gauge, "weir_inline_limit_bytes", "Those of weir_limit_bytes that are of limits that requests brought along; a quarter of the budget at most.",
		func(s weir.Stats) float64 { return float64(s.InlineBytes) })
	add(gauge, "weir_idempotency_keys", "Idempotency-Keys that are remembered, of all nodes.",
		func(s weir.Stats) float64 { return float64(s.OnceKeys) })
	add(gauge, "weir_idempotency_bytes", "Memory of those that this node was the first to see.",
		func(s weir.Stats) float64 { return float64(s.OnceBytes) })
	add(gauge, "weir_idempotency_budget_bytes", "The budget of these; the others have twice as much.",
		func(s weir.Stats) float64 { return float64(s.OnceBudget) })
	add(counter, "weir_idempotency_refused_total", "Requests whose Idempotency-Key found no room: nothing of them was counted.",
		func(s weir.Stats) float64 { return float64(s.OnceRefused) })
	add(counter, "weir_idempotency_dropped_total", "Idempotency-Keys of other nodes, or earlier lives, that were forgotten before ten minutes.",
		func(s weir.Stats) float64 { return float64(s.OnceDropped) })
	return c
}
