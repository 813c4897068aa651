// Package health is what is wrong with a server now, and whether to send requests there. Whatever is a source of alarms
// is composed here, so that health, answers and metrics say the same.
package health

import (
	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/budgets"
	"github.com/weir-counter/weir/service/doors"
	"github.com/weir-counter/weir/service/files"
	"github.com/weir-counter/weir/service/pools"
	"github.com/weir-counter/weir/service/sources"
	"github.com/weir-counter/weir/service/storage"
)

// Parts are the sources of alarms. Engine, Sources, Storage, Pools and Doors must be given.
type Parts struct {
	Engine     *weir.Engine
	Sources    *sources.Sources
	Storage    storage.Storage
	Pools      *pools.Pools
	Doors      *doors.List
	History    backend.History
	Regions    backend.Regions
	Tokens     *files.Tokens
	PolicyFile *files.PolicyFile
	Kept       *files.KeptPolicies
	More       func() []api.Alarm
}

// Service says what is wrong.
type Service struct{ parts Parts }

// New is a Service of parts.
func New(p Parts) *Service { return &Service{p} }

// Alarms are all that is wrong now, never nil.
func (s *Service) Alarms() []api.Alarm {
	all := []api.Alarm{}
	all = append(all, s.parts.Storage.Alarms()...)
	all = append(all, s.parts.Pools.Alarms()...)
	if s.parts.History != nil {
		all = append(all, s.parts.History.Alarms()...)
	}
	all = append(all, s.parts.Doors.Alarms()...)
	all = append(all, s.parts.Tokens.Alarms()...)
	all = append(all, s.parts.PolicyFile.Alarms()...)
	all = append(all, s.parts.Kept.Alarms()...)
	if s.parts.More != nil {
		all = append(all, s.parts.More()...)
	}
	if s.parts.Regions != nil {
		all = append(all, s.parts.Regions.Alarms()...)
	}
	return append(all, budgets.Alarms(s.parts.Engine.Stats())...)
}

// Ready says whether to send requests here, and what is wrong. A node that is away
// from the others is still ready: it goes on to count, and answers say who is late.
// refusing is the alarm that says that hits are better off elsewhere; nil: there is none.
func (s *Service) Ready() (answer api.Ready, refusing *api.Alarm) {
	answer = api.Ready{Status: "ok", Alarms: s.Alarms()}
	if len(answer.Alarms) > 0 {
		answer.Status = "degraded"
	}
	s.parts.Sources.AddReady(&answer)
	for i := range answer.Alarms {
		if a := &answer.Alarms[i]; a.Refusing {
			return answer, a
		}
	}
	return answer, nil
}
