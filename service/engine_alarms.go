package service

import (
	"fmt"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
)

// engineAlarms tell of memory that is full, or will be soon, and of what is refused then.
// They refuse no plain hits.
func engineAlarms(st weir.Stats) (list []Alarm) {
	switch used := share(st.OnceBytes, st.OnceBudget); {
	case used >= fullShare:
		list = append(list, Alarm{Code: "idempotency_full", Message: fmt.Sprintf("the Idempotency-Keys of the last ten minutes take all of %s: requests with a new one are refused, %d so far. Send larger batches, use all nodes, or raise --idempotency-memory",
			units.FormatSize(st.OnceBudget), st.OnceRefused)})
	case used >= fillingShare:
		list = append(list, Alarm{Code: "idempotency_filling", Message: fmt.Sprintf("the Idempotency-Keys of the last ten minutes take %.0f %% of %s: once it is full, requests with a new one are refused. Send larger batches, use all nodes, or raise --idempotency-memory",
			100*used, units.FormatSize(st.OnceBudget))})
	}
	if st.OnceDropping {
		list = append(list, Alarm{Code: "idempotency_short", Message: "the Idempotency-Keys of other nodes, and of earlier lives of this one, take more memory than there is, so the oldest are forgotten before ten minutes, and a retry that is sent to another node may count twice. Raise --idempotency-memory"})
	}
	switch used := share(st.InlineBytes, st.InlineBudget); {
	case used >= fullShare:
		list = append(list, Alarm{Code: "inline_limits_full", Message: fmt.Sprintf("limits that requests bring along use all of their quarter of --limit-memory, %s: further keys of them are refused with 503, those of policies are not. 'weir limits forget --all' forgets what was used of them",
			units.FormatSize(st.InlineBudget))})
	case used >= fillingShare:
		list = append(list, Alarm{Code: "inline_limits_filling", Message: fmt.Sprintf("limits that requests bring along use %.0f %% of their quarter of --limit-memory, %s: once it is full, further keys of them are refused. Use shorter periods, or write policies",
			100*used, units.FormatSize(st.InlineBudget))})
	}
	switch used := share(st.LimitBytes, st.LimitBudget); {
	case used >= fullShare:
		list = append(list, Alarm{Code: "limit_memory_full", Message: fmt.Sprintf("keys with limits in use fill --limit-memory, %s: decisions about further keys are refused with 503, %d so far. Raise it, or use shorter periods",
			units.FormatSize(st.LimitBudget), st.LimitRefused)})
	case used >= fillingShare:
		list = append(list, Alarm{Code: "limit_memory_filling", Message: fmt.Sprintf("keys with limits in use, and some that were, take %.0f %% of --limit-memory, %s: those in use are never dropped, and once they fill it, decisions about further keys are refused",
			100*used, units.FormatSize(st.LimitBudget))})
	}
	return list
}

const (
	fillingShare = 0.8
	fullShare    = 0.98 // the rest may be too little for the next receipt
)

func share(used, budget int64) float64 { return float64(used) / float64(max(budget, 1)) }
