// Package doors is what a service knows of its doors: their figures, alarms and limits.
package doors

import (
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy"
)

// Door is a way in that has figures and alarms of its own beside those of the service. It is
// attached (Attach), so that health and metrics, which another door serves, have them too.
type Door interface {
	Figures() Figures
	Alarms() []api.Alarm
}

// Figures are the figures of a door, since its start.
type Figures struct {
	Name        string // of its protocol, for labels
	Open, Bound int    // connections
	Shed        uint64 // those closed to let another in
	Failed      uint64 // requests that were answered with an error
	Requests    []Requests

	Rejected []Requests // parts of requests that were not taken, by reason, of doors that can't tell their clients
	Packets  *Packets   // nil: the door has connections alone

	// Of counters that the door keeps by itself.
	Keys              int64
	Bytes, BytesBound int64
	Refused           uint64 // for which there was no room
}

// Packets are of a door without connections, since its start.
type Packets struct {
	Received uint64
	Dropped  uint64 // by the kernel, for want of room
	Known    bool   // the system tells Dropped
}

// Requests is how many requests of a kind there were.
type Requests struct {
	Kind  string // bounded: those that the door knows, and "unknown"
	Count uint64
}

// Limited is a Door that has limits of its own, beside the policies of the file.
type Limited interface {
	// Limits lists them as policies, whose Keys and By are for people to read.
	Limits() []policy.Policy
}

// List is the doors that are attached. It does not change once they answer.
type List struct{ all []Door }

// Attach adds a door.
func (l *List) Attach(d Door) { l.all = append(l.all, d) }

// Figures are those of each.
func (l *List) Figures() (list []Figures) {
	for _, d := range l.all {
		list = append(list, d.Figures())
	}
	return list
}

// Alarms are those of all.
func (l *List) Alarms() (list []api.Alarm) {
	for _, d := range l.all {
		list = append(list, d.Alarms()...)
	}
	return list
}

// Limit is a limit of a door.
type Limit struct {
	policy.Policy
	Door string // its name
}

// Limits are those that doors have of their own.
func (l *List) Limits() (list []Limit) {
	for _, d := range l.all {
		of, has := d.(Limited)
		if !has {
			continue
		}
		name := d.Figures().Name
		for _, p := range of.Limits() {
			list = append(list, Limit{p, name})
		}
	}
	return list
}
