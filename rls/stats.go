package rls

import (
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// Figures implements service.Door.
func (s *Server) Figures() service.DoorFigures {
	f := service.DoorFigures{Name: "rls", Failed: s.failed.Load()}
	for i := range s.calls {
		f.Requests = append(f.Requests, service.DoorRequests{Kind: callNames[i], Count: s.calls[i].Load()})
	}
	if l := s.address.Listener(); l != nil {
		f.Bound = l.Bound()
		f.Open, f.Shed = l.Count()
	}
	return f
}

// Alarms implements service.Door.
func (s *Server) Alarms() (list []api.Alarm) {
	if s.live.trouble.Load() {
		list = append(list, api.Alarm{Code: "rls_config_bad", Message: "the newest limits of --rls-config are not in use, because they are wrong or can't be read; those before them are: the server's log says why"})
	}
	switch x := s.xds; {
	case x == nil:
	case x.Refused():
		list = append(list, api.Alarm{Code: "rls_config_bad", Message: "the newest limits of the management server " + s.cfg.XDS.Addr + " are not in use, because they are wrong; those before them are: the server's log says why"})
	case !x.Connected():
		list = append(list, api.Alarm{Code: "rls_xds_away", Message: "the management server " + s.cfg.XDS.Addr + " does not answer: the limits that it sent last are in use, and those of --rls fail while there are none"})
	}
	return list
}
