package access

import (
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy"
)

// Listener serves a protocol, and has figures and alarms of its own. It is attached (Attach), so that health and
// metrics, which another listener serves, have them too.
type Listener interface {
	Figures() ListenerFigures
	Alarms() []api.Alarm
}

// ListenerFigures are the figures of a listener, since its start.
type ListenerFigures struct {
	Name        string // of its protocol, for labels
	Open, Bound int    // connections
	Shed        uint64 // those closed to let another in
	Failed      uint64 // requests that were answered with an error
	Requests    []ListenerRequests

	Rejected []ListenerRequests // parts of requests that were not taken, by reason, of listeners that can't tell their clients
	Packets  *ListenerPackets   // nil: the listener has connections alone

	// Of counters that the listener keeps by itself.
	Keys              int64
	Bytes, BytesBound int64
	Refused           uint64 // that did not fit
}

// ListenerPackets are of a listener without connections, since its start.
type ListenerPackets struct {
	Received uint64
	Dropped  uint64 // by the kernel, whose buffer was full
	Known    bool   // the system tells Dropped
}

// ListenerRequests is how many requests of a kind there were.
type ListenerRequests struct {
	Kind  string // bounded: those that the listener knows, and "unknown"
	Count uint64
}

// ListenerLimited is a Listener that has limits of its own, in addition to the policies of the file.
type ListenerLimited interface {
	// Limits lists them as policies, whose Keys and By are for people to read.
	Limits() []policy.Policy
}

// ListenerList is the listeners that are attached. It does not change once they answer.
type ListenerList struct{ all []Listener }

// Attach adds a listener.
func (l *ListenerList) Attach(d Listener) { l.all = append(l.all, d) }

// Figures has the figures of each.
func (l *ListenerList) Figures() (list []ListenerFigures) {
	for _, d := range l.all {
		list = append(list, d.Figures())
	}
	return list
}

// Alarms has the alarms of all.
func (l *ListenerList) Alarms() (list []api.Alarm) {
	for _, d := range l.all {
		list = append(list, d.Alarms()...)
	}
	return list
}

// ListenerLimit is a limit of a listener.
type ListenerLimit struct {
	policy.Policy
	Listener string // its name
}

// Limits are those that listeners have of their own.
func (l *ListenerList) Limits() (list []ListenerLimit) {
	for _, d := range l.all {
		of, has := d.(ListenerLimited)
		if !has {
			continue
		}
		name := d.Figures().Name
		for _, p := range of.Limits() {
			list = append(list, ListenerLimit{p, name})
		}
	}
	return list
}
