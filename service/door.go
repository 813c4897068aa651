package service

import "github.com/weir-counter/weir/policy"

// Door is a way in that has figures and alarms of its own beside those of the service. It is
// attached (Attach), so that health and metrics, which another door serves, have them too.
type Door interface {
	Figures() DoorFigures
	Alarms() []Alarm
}

// DoorFigures are the figures of a door, since its start.
type DoorFigures struct {
	Name        string // of its protocol, for labels
	Open, Bound int    // connections
	Shed        uint64 // those closed to let another in
	Failed      uint64 // requests that were answered with an error
	Requests    []DoorRequests

	Rejected []DoorRequests // parts of requests that were not taken, by reason, of doors that can't tell their clients
	Packets  *PacketFigures // nil: the door has connections alone

	// Of counters that the door keeps by itself.
	Keys              int64
	Bytes, BytesBound int64
	Refused           uint64 // for which there was no room
}

// PacketFigures are of a door without connections, since its start.
type PacketFigures struct {
	Received uint64
	Dropped  uint64 // by the kernel, for want of room
	Known    bool   // the system tells Dropped
}

// DoorRequests is how many requests of a kind there were.
type DoorRequests struct {
	Kind  string // bounded: those that the door knows, and "unknown"
	Count uint64
}

// Limited is a Door that has limits of its own, beside the policies of the file.
type Limited interface {
	// Limits lists them as policies, whose Keys and By are for people to read.
	Limits() []policy.Policy
}

// Attach adds a door. It is for whoever puts a node together, before the doors answer.
func (s *Service) Attach(d Door) { s.doors = append(s.doors, d) }

// Doors are the figures of those that are attached.
func (s *Service) Doors() (list []DoorFigures) {
	for _, d := range s.doors {
		list = append(list, d.Figures())
	}
	return list
}

// listed is a limit by name: a policy of the file, or of a door.
type listed struct {
	policy.Policy
	door string // "": the file
}

// listed are the policies of the file in order of application, and then the limits of doors.
func (s *Service) listed() (list []listed) {
	for _, p := range s.policies.Set().Policies() {
		list = append(list, listed{Policy: p})
	}
	for _, d := range s.doors {
		of, has := d.(Limited)
		if !has {
			continue
		}
		name := d.Figures().Name
		for _, p := range of.Limits() {
			list = append(list, listed{p, name})
		}
	}
	return list
}
