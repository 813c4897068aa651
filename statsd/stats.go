package statsd

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// Figures implements service.Door.
func (s *Server) Figures() service.DoorFigures {
	f := service.DoorFigures{
		Name: "statsd", Failed: s.refused.total(),
		Requests: []service.DoorRequests{{Kind: "counter", Count: s.counters.Load()}},
		Packets:  &service.PacketFigures{Received: s.datagrams.Load()},
	}
	for why := malformed; why < reasons; why++ {
		f.Rejected = append(f.Rejected, service.DoorRequests{Kind: words[why].name, Count: s.refused.by[why].count.Load()})
	}
	f.Packets.Dropped, f.Packets.Known = s.drops.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.listener; l != nil {
		f.Bound = l.Bound()
		f.Open, f.Shed = l.Count()
	}
	return f
}

// droppedFor is how long after datagrams were dropped there is an alarm.
const droppedFor = time.Minute

// Alarms implements service.Door.
func (s *Server) Alarms() (list []api.Alarm) {
	if since, n := s.drops.lately(time.Now()); since < droppedFor && n > 0 {
		list = append(list, api.Alarm{Code: "statsd_dropped", Message: fmt.Sprintf(
			"the kernel dropped %d StatsD datagrams in the last minute, whose hits are lost: they come faster than they are counted, or in bursts that its buffer does not hold; raise net.core.rmem_max, have senders pack lines or sample, or send by TCP", n)})
	}
	return list
}
