package service

import "github.com/weir-counter/weir/api"

// Alarm is something that is wrong now.
type Alarm = api.Alarm

// Alarms are all that is wrong now, never nil. Whatever is a source of them is
// composed here, so that health, answers and metrics say the same.
func (s *Service) Alarms() []Alarm {
	all := []Alarm{}
	if s.cfg.Journal != nil {
		all = append(all, s.cfg.Journal.Alarms()...)
	}
	all = append(all, s.Pools.alarms()...)
	return append(all, engineAlarms(s.engine.Stats())...)
}
