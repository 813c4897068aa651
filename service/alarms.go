package service

import (
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/budgets"
)

// Alarm is something that is wrong now.
type Alarm = api.Alarm

// Alarms are all that is wrong now, never nil. Whatever is a source of them is
// composed here, so that health, answers and metrics say the same.
func (s *Service) Alarms() []Alarm {
	all := []Alarm{}
	all = append(all, s.storage.Alarms()...)
	all = append(all, s.Pools.Alarms()...)
	if s.backend.History != nil {
		all = append(all, s.backend.History.Alarms()...)
	}
	for _, d := range s.doors {
		all = append(all, d.Alarms()...)
	}
	all = append(all, s.backend.Tokens.Alarms()...)
	all = append(all, s.backend.PolicyFile.Alarms()...)
	if s.backend.Alarms != nil {
		all = append(all, s.backend.Alarms()...)
	}
	if s.backend.Regions != nil {
		all = append(all, s.backend.Regions.Alarms()...)
	}
	return append(all, budgets.Alarms(s.engine.Stats())...)
}

// Ready says whether to send requests here, and what is wrong. A node that is away
// from the others is still ready: it goes on to count, and answers say who is late.
// refusing is the alarm that says that hits are better off elsewhere; nil: there is none.
func (s *Service) Ready() (answer api.Ready, refusing *Alarm) {
	answer = api.Ready{Status: "ok", Alarms: s.Alarms()}
	if len(answer.Alarms) > 0 {
		answer.Status = "degraded"
	}
	s.peers.addReady(&answer)
	for i := range answer.Alarms {
		if a := &answer.Alarms[i]; a.Refusing {
			return answer, a
		}
	}
	return answer, nil
}
