package metrics

import "github.com/weir-counter/weir/service"

// newWarningCollector tells of the warnings that are sent to an address.
func newWarningCollector(stats func() service.WarningFigures) *figures[service.WarningFigures] {
	c := &figures[service.WarningFigures]{stats: stats}
	c.add(counter, "weir_warnings_sent_total", "Warnings of limits that --warn-url took.",
		func(f service.WarningFigures) float64 { return float64(f.Sent) })
	c.add(counter, "weir_warnings_failed_total", "Warnings of limits that were given up: --warn-url refused them, or took none for ten minutes.",
		func(f service.WarningFigures) float64 { return float64(f.Failed) })
	c.add(counter, "weir_warnings_dropped_total", "Decisions whose warning found no place in the queue: the next one of the key tries again.",
		func(f service.WarningFigures) float64 { return float64(f.Dropped) })
	c.add(gauge, "weir_warnings_waiting", "Warnings of limits that wait to be sent, at most 1,024.",
		func(f service.WarningFigures) float64 { return float64(f.Waiting) })
	return c
}
