package replica

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// What a node knows of the replicas, second by second.
func TestStores(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	gone := errors.New("no space left")
	var s Stores
	for _, step := range []struct {
		second int
		own    StoreState
		alarm  bool
		due    bool
	}{
		{1, StoreState{}, false, false},
		{2, StoreState{Wrong: gone, Led: true}, false, false}, // it may be well in a moment
		{3, StoreState{}, false, false},
		{4, StoreState{Wrong: gone, Led: true}, false, false},
		{10, StoreState{Wrong: gone, Led: true}, true, false},
		{20, StoreState{Wrong: gone, Led: true, Messages: 1}, true, false}, // it catches up
		{70, StoreState{Wrong: gone, Led: true, Messages: 1}, true, false},
		{81, StoreState{Wrong: gone, Led: true, Messages: 1}, true, true},
		{82, StoreState{Wrong: gone, Messages: 1}, true, false}, // the others are away
		{83, StoreState{}, false, false},
		{84, StoreState{Wrong: gone, Failed: true}, true, false}, // it is said at once
		{87, StoreState{Wrong: gone, Failed: true}, true, true},
	} {
		s.Look(at(step.second), step.own)
		_, due := s.Due(at(step.second))
		if alarms := s.Alarms(at(step.second), "n1"); (len(alarms) == 1) != step.alarm || due != step.due {
			t.Errorf("second %d: alarms %+v, due %v", step.second, alarms, due)
		}
	}
	s.Hinder("free some space")
	if alarms := s.Alarms(at(88), "n1"); !strings.Contains(alarms[0].Message, "free some space") {
		t.Errorf("%+v", alarms)
	}
	s.Look(at(88), StoreState{Wrong: gone, Failed: true, Off: true})
	if alarms := s.Alarms(at(88), "n1"); !strings.Contains(alarms[0].Message, "waits in memory") {
		t.Errorf("%+v", alarms)
	}
	s.Started(at(88))
	if _, due := s.Due(at(89)); due || len(s.Alarms(at(89), "n1")) != 1 {
		t.Error("a server that was just started is not well yet, nor to be started again")
	}
	s.Hinder("free some space")
	s.Look(at(90), StoreState{}) // it is well without another start
	s.Look(at(91), StoreState{Wrong: gone, Failed: true})
	if alarms := s.Alarms(at(91), "n1"); strings.Contains(alarms[0].Message, "free some space") {
		t.Errorf("%+v", alarms)
	}

	s = Stores{}
	s.Hear(at(1), "n2", "no space left")
	s.Hear(at(1), "n3", "")
	lag := func(peers ...ReplicaState) []ReplicaState { return peers }
	said := func(second int) (all string) {
		for _, a := range s.Alarms(at(second), "n1") {
			all += a.Code + " " + a.Message + ";"
		}
		return all
	}
	if got := said(2); !strings.Contains(got, "n2 does not store: no space left") || strings.Contains(got, "n3") {
		t.Error(got)
	}
	if got := said(20); got != "" { // it has said nothing for long
		t.Error(got)
	}
	s.See(at(20), lag(ReplicaState{Node: "n2"}, ReplicaState{Node: "n3", Offline: true}, ReplicaState{Node: "n1"}))
	if got := said(21); !strings.Contains(got, "n3 does not store: its server does not run") || strings.Contains(got, "n2") || strings.Contains(got, "n1 ") {
		t.Error(got)
	}
	s.See(at(26), lag(ReplicaState{Node: "n2"}))
	if got := said(26); !strings.Contains(got, "n2 does not store: it lags") || strings.Contains(got, "n3") {
		t.Error(got)
	}
	s.See(at(27), lag(ReplicaState{Node: "n2", Current: true}))
	if got := said(27); got != "" {
		t.Error(got)
	}
}
