package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/journal/join"
	"github.com/weir-counter/weir/journal/join/jointest"
)

func alarmed(j *Journal, code string) bool {
	return slices.ContainsFunc(j.Alarms(), func(a Alarm) bool { return a.Code == code })
}

// Writing fails on all nodes of a cluster, with an error that their servers do not take
// for a full disk: they give up each stream by itself, and nothing is durable. Every
// node says so, and once it is over all go on by themselves, with every hit once.
func TestClusterHealsFailedWrites(t *testing.T) {
	t.Parallel()
	if !inOwnProcess(t) {
		return
	}
	c := newCluster(t, 3)
	c.start()
	hits := uint64(0)
	fill := func() {
		for i := range 300 {
			c.nodes[i%3].hit(fmt.Sprintf("key:%0100d", i), 1_000_000, 1)
			hits++
		}
	}
	fill()
	c.agree(map[string]uint64{weir.AllKeys: hits})
	lift := fullDisk(t, 64<<10)
	fill()
	for i, node := range c.nodes {
		jointest.Eventually(t, fmt.Sprintf("n%d says what is wrong", i+1), func() bool {
			fill()
			return alarmed(node.j, "journal_failing") && alarmed(node.j, "replica_failing") && alarmed(node.j, "replica_missing")
		})
	}
	began := time.Now()
	lift()
	for i, node := range c.nodes {
		jointest.Eventually(t, fmt.Sprintf("n%d is well", i+1), func() bool { return len(node.j.Alarms()) == 0 && !node.j.stats.failing.Load() })
		node.sync()
	}
	t.Logf("healed after %v", time.Since(began))
	c.agree(map[string]uint64{weir.AllKeys: hits})
	for i, node := range c.nodes {
		if s := node.j.Stats(); s.Revivals == 0 || s.Divergence+s.Holes > 0 {
			t.Errorf("n%d: %+v", i+1, s)
		}
	}
}

// What a node knows of the replicas, second by second.
func TestStores(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	gone := errors.New("no space left")
	var s stores
	for _, step := range []struct {
		second int
		own    join.Store
		alarm  bool
		due    bool
	}{
		{1, join.Store{}, false, false},
		{2, join.Store{Wrong: gone, Led: true}, false, false}, // it may be well in a moment
		{3, join.Store{}, false, false},
		{4, join.Store{Wrong: gone, Led: true}, false, false},
		{10, join.Store{Wrong: gone, Led: true}, true, false},
		{20, join.Store{Wrong: gone, Led: true, Messages: 1}, true, false}, // it catches up
		{70, join.Store{Wrong: gone, Led: true, Messages: 1}, true, false},
		{81, join.Store{Wrong: gone, Led: true, Messages: 1}, true, true},
		{82, join.Store{Wrong: gone, Messages: 1}, true, false}, // the others are away
		{83, join.Store{}, false, false},
		{84, join.Store{Wrong: gone, Failed: true}, true, false}, // it is said at once
		{87, join.Store{Wrong: gone, Failed: true}, true, true},
	} {
		s.look(at(step.second), step.own)
		_, due := s.due(at(step.second))
		if alarms := s.alarms(at(step.second), "n1"); (len(alarms) == 1) != step.alarm || due != step.due {
			t.Errorf("second %d: alarms %+v, due %v", step.second, alarms, due)
		}
	}
	s.hinder("make room")
	if alarms := s.alarms(at(88), "n1"); !strings.Contains(alarms[0].Message, "make room") {
		t.Errorf("%+v", alarms)
	}
	s.started(at(88))
	if _, due := s.due(at(89)); due || len(s.alarms(at(89), "n1")) != 1 {
		t.Error("a server that was just started is not well yet, nor to be started again")
	}

	s = stores{}
	s.hear(at(1), "n2", "no space left")
	s.hear(at(1), "n3", "")
	lag := func(peers ...*jetstream.PeerInfo) *jetstream.StreamInfo {
		return &jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{Replicas: peers}}
	}
	said := func(second int) (all string) {
		for _, a := range s.alarms(at(second), "n1") {
			all += a.Code + " " + a.Message + ";"
		}
		return all
	}
	if got := said(2); !strings.Contains(got, "n2 does not store: no space left") || strings.Contains(got, "n3") {
		t.Error(got)
	}
	if got := said(20); got != "" { // it has told nothing for long
		t.Error(got)
	}
	s.see(at(20), lag(&jetstream.PeerInfo{Name: "n2"}, &jetstream.PeerInfo{Name: "n3", Offline: true}, &jetstream.PeerInfo{Name: "n1"}))
	if got := said(21); !strings.Contains(got, "n3 does not store: its server is away") || strings.Contains(got, "n2") || strings.Contains(got, "n1 ") {
		t.Error(got)
	}
	s.see(at(26), lag(&jetstream.PeerInfo{Name: "n2"}))
	if got := said(26); !strings.Contains(got, "n2 does not store: it lags") || strings.Contains(got, "n3") {
		t.Error(got)
	}
	s.see(at(27), lag(&jetstream.PeerInfo{Name: "n2", Current: true}))
	if got := said(27); got != "" {
		t.Error(got)
	}
}
