package metrics

import "github.com/weir-counter/weir/service/backend"

// newLeasedFigures are the figures of leased limits.
func newLeasedFigures(stats func() backend.LeasedStats) *figures[backend.LeasedStats] {
	f := &figures[backend.LeasedStats]{stats: stats}
	f.add(counter, "weir_leased_local_total", "Decisions of leased limits that this node made by itself, within what it was lent or by what was said to it a moment ago.",
		func(s backend.LeasedStats) float64 { return float64(s.Local) })
	f.add(counter, "weir_leased_messages_total", "Messages about leased limits that this node sent to the nodes that lend, itself included: for decisions, for grants and of what was used.",
		func(s backend.LeasedStats) float64 { return float64(s.Asked) })
	f.add(counter, "weir_leased_served_total", "Such messages that this node answered.",
		func(s backend.LeasedStats) float64 { return float64(s.Served) })
	f.add(counter, "weir_leased_short_total", "Denials while other nodes, or the one that lends, had enough of the limit that was not used: at most so many were denied that one node alone would have admitted.",
		func(s backend.LeasedStats) float64 { return float64(s.Short) })
	f.add(gauge, "weir_leased_keys", "Keys of leased limits that this node was asked for lately.",
		func(s backend.LeasedStats) float64 { return float64(s.Keys) })
	f.add(gauge, "weir_leased_lent", "Admissions that this node was lent, has not used, and may use.",
		func(s backend.LeasedStats) float64 { return float64(s.Lent) })
	f.add(gauge, "weir_leased_out", "Admissions that this node has lent, or an earlier one, and that count as used.",
		func(s backend.LeasedStats) float64 { return float64(s.Out) })
	return f
}
