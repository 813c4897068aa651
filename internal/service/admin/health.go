package admin

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/units"
)

// Health says what is wrong: health, answers and metrics say the same.
type Health struct {
	sources *queries.Sources
	alarms  []func() []api.Alarm
}

// NewHealth returns a Health with these alarms.
func NewHealth(from *queries.Sources, alarms ...func() []api.Alarm) *Health {
	return &Health{from, alarms}
}

// Alarms are all that is wrong now, never nil.
func (s *Health) Alarms() []api.Alarm {
	all := []api.Alarm{}
	for _, alarms := range s.alarms {
		all = append(all, alarms()...)
	}
	return all
}

// Ready says whether to send requests here, and what is wrong. A node that can't reach the others is still ready: it
// goes on to count, and answers say who is late. The alarm in refusing says that hits are better off elsewhere; nil:
// there is none.
func (s *Health) Ready() (answer api.Ready, refusing *api.Alarm) {
	answer = api.Ready{Status: "ok", Alarms: s.Alarms()}
	if len(answer.Alarms) > 0 {
		answer.Status = "degraded"
	}
	s.sources.AddReady(&answer)
	for i := range answer.Alarms {
		if a := &answer.Alarms[i]; a.Refusing {
			return answer, a
		}
	}
	return answer, nil
}

// MemoryAlarms tell of memory that is full, or will be soon, and of what is refused then. They refuse no plain hits.
func MemoryAlarms(st engine.Stats) (list []api.Alarm) {
	for _, b := range []budget{
		{
			code: "idempotency", used: st.OnceBytes, bound: st.OnceBudget, refused: st.OnceRefused,
			full:    "the Idempotency-Keys of the last ten minutes fill {budget}: requests with a new key are refused, {refused} so far. Send larger batches, use all nodes, or raise --idempotency-memory",
			filling: "the Idempotency-Keys of the last ten minutes use {percent} % of {budget}: once it is full, requests with a new key are refused. Send larger batches, use all nodes, or raise --idempotency-memory",
		},
		{
			code: "inline_limits", used: st.InlineBytes, bound: st.InlineBudget,
			full:    "limits sent with requests fill their quarter of --limit-memory, {budget}: further keys of such limits are refused with 503. Policies are not affected. 'weir limits forget --all' deletes their usage",
			filling: "limits sent with requests use {percent} % of their quarter of --limit-memory, {budget}: once it is full, further keys are refused. Use shorter periods, or write policies",
		},
		{
			code: "limit_memory", used: st.LimitBytes, bound: st.LimitBudget, refused: st.LimitRefused,
			full:    "keys with limits in use fill --limit-memory, {budget}: decisions about further keys are refused with 503, {refused} so far. Raise it, or use shorter periods",
			filling: "keys with limits use {percent} % of --limit-memory, {budget}: once limits in use fill it, decisions about further keys are refused. Raise it, or use shorter periods",
		},
	} {
		list = append(list, b.alarms()...)
	}
	if st.OnceDropping {
		list = append(list, api.Alarm{Code: "idempotency_short", Message: "the Idempotency-Keys of other nodes and of earlier runs exceed their memory: the oldest are forgotten before ten minutes, and a retry at another node can count twice. Raise --idempotency-memory"})
	}
	return list
}

// budget is memory of the engine that can be used up. In its messages, {budget}
// stands for its size, {percent} for how much is used, and {refused} for what was refused so far.
type budget struct {
	code          string // of its alarms, before _full and _filling
	used, bound   int64  // bytes
	refused       uint64 // requests, since the start
	full, filling string // messages
}

const (
	fillingShare = 0.8
	fullShare    = 0.98 // the rest may be too little for the next receipt
)

// alarms are one at most.
func (b budget) alarms() []api.Alarm {
	share := float64(b.used) / float64(max(b.bound, 1))
	say := func(suffix, message string) []api.Alarm {
		message = strings.NewReplacer(
			"{budget}", units.FormatSize(b.bound), "{percent}", fmt.Sprintf("%.0f", 100*share), "{refused}", strconv.FormatUint(b.refused, 10),
		).Replace(message)
		return []api.Alarm{{Code: b.code + suffix, Message: message}}
	}
	switch {
	case share >= fullShare:
		return say("_full", b.full)
	case share >= fillingShare:
		return say("_filling", b.filling)
	}
	return nil
}
