package resp

import (
	"fmt"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/service"
)

// Figures implements service.Door.
func (s *Server) Figures() service.DoorFigures {
	kept := s.counters.Stats()
	f := service.DoorFigures{
		Name: "resp", Failed: s.commands.failed.Load(),
		Keys: kept.Keys, Bytes: kept.Bytes, BytesBound: kept.Bound, Refused: kept.Refused,
	}
	for _, c := range s.commands.list {
		f.Requests = append(f.Requests, service.DoorRequests{Kind: c.name, Count: c.calls.Load()})
	}
	f.Requests = append(f.Requests, service.DoorRequests{Kind: "unknown", Count: s.commands.unknown.Load()})
	if l := s.address.Listener(); l != nil {
		f.Bound = l.Bound()
		f.Open, f.Shed = l.Count()
	}
	return f
}

// sent is how many requests there were.
func (s *Server) sent() (n uint64) {
	for _, c := range s.commands.list {
		n += c.calls.Load()
	}
	return n + s.commands.unknown.Load()
}

// Alarms implements service.Door.
func (s *Server) Alarms() (list []api.Alarm) {
	const nearlyFull = 100 // a hundredth is left
	if st := s.counters.Stats(); st.Bytes > st.Bound-st.Bound/nearlyFull {
		list = append(list, api.Alarm{Code: "resp_counters_full", Message: fmt.Sprintf(
			"the counters of INCR and SET use %s of %s: new ones are refused until some expire; --resp-counters is the bound",
			units.FormatSize(st.Bytes), units.FormatSize(st.Bound))})
	}
	return list
}
