package metrics

import (
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service/access"
)

// newListenerCollector tells of the listeners other than HTTP. Its series are bounded by the kinds of requests that
// they know. A command that was never sent has no series.
func newListenerCollector(listeners func() []access.ListenerFigures) *collector {
	return newCollector([]metric{
		{"weir_listener_connections", "Open connections.", "listener"},
		{"weir_listener_connections_bound", "Most open connections.", "listener"},
		{"weir_listener_connections_shed_total", "Connections that waited for their client and were closed to let others in.", "listener"},
		{"weir_listener_requests_total", "Requests by command, those that failed among them.", "listener command"},
		{"weir_listener_requests_failed_total", "Requests that were answered with an error.", "listener"},
		{"weir_listener_counters", "Counters with an expiry, including expired ones that were not removed yet.", "listener"},
		{"weir_listener_counters_bytes", "Memory of these counters.", "listener"},
		{"weir_listener_counters_bytes_bound", "Most memory of these counters.", "listener"},
		{"weir_listener_counters_refused_total", "New counters that there was no memory for.", "listener"},
		{"weir_listener_rejected_total", "Lines that were not counted, by reason.", "listener reason"},
		{"weir_listener_datagrams_total", "Datagrams received.", "listener"},
		{"weir_listener_datagrams_dropped_total", "Datagrams that the kernel dropped because the buffer was full.", "listener"},
	}, func(emit emit) {
		for _, f := range listeners() {
			emit("weir_listener_connections", float64(f.Open), f.Name)
			emit("weir_listener_connections_bound", float64(f.Bound), f.Name)
			emit("weir_listener_connections_shed_total", float64(f.Shed), f.Name)
			for _, r := range f.Requests {
				if r.Count > 0 {
					emit("weir_listener_requests_total", float64(r.Count), f.Name, r.Kind)
				}
			}
			emit("weir_listener_requests_failed_total", float64(f.Failed), f.Name)
			for _, r := range f.Rejected {
				if r.Count > 0 {
					emit("weir_listener_rejected_total", float64(r.Count), f.Name, r.Kind)
				}
			}
			if p := f.Packets; p != nil {
				emit("weir_listener_datagrams_total", float64(p.Received), f.Name)
				if p.Known {
					emit("weir_listener_datagrams_dropped_total", float64(p.Dropped), f.Name)
				}
			}
			emit("weir_listener_counters", float64(f.Keys), f.Name)
			emit("weir_listener_counters_bytes", float64(f.Bytes), f.Name)
			emit("weir_listener_counters_bytes_bound", float64(f.BytesBound), f.Name)
			emit("weir_listener_counters_refused_total", float64(f.Refused), f.Name)
		}
	})
}

// newConnCollector tells of the connections of a listener; of nil, that there is none of ours.
func newConnCollector(of func() *listener.Listener) *collector {
	return newCollector([]metric{
		{"weir_connections", "Open connections.", ""},
		{"weir_connections_bound", "Most open connections.", ""},
		{"weir_connections_shed_total", "Connections that waited for their client and were closed to let others in.", ""},
	}, func(emit emit) {
		if conns := of(); conns != nil {
			open, shed := conns.Count()
			emit("weir_connections", float64(open))
			emit("weir_connections_bound", float64(conns.Bound()))
			emit("weir_connections_shed_total", float64(shed))
		}
	})
}
