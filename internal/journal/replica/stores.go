package replica

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
)

const (
	// StoresEvery is how often a node looks at its replicas.
	StoresEvery = time.Second

	// storesFor is for how long the report of a node is believed.
	storesFor = 10 * time.Second

	// storesSure is for how long a replica must lag to be called behind: under load each
	// one lags for a moment.
	storesSure = 5 * time.Second

	// healSure is how long a server must have given up: what starts says so for a moment.
	healSure = 3 * time.Second

	// stuckAfter is how long a replica may be not current, with a leader to be had and
	// nothing coming in, before its server is restarted.
	stuckAfter = time.Minute

	// storesMost bounds the nodes that are remembered, and a reason's bytes.
	storesMost, reasonMost = 1000, 300
)

// Replicas is how many nodes keep each message, where there are as many: one may
// be lost, and the others agree.
const Replicas = 3

// errStarting is how a server is that was not asked yet.
var errStarting = errors.New("its embedded server was restarted a moment ago")

// StoreState is how the own server's replicas are.
type StoreState struct {
	// Wrong is why they do not store, or lack what others have; nil: they are well.
	Wrong error
	// Failed is whether the server gave up, and goes on only when it is restarted.
	// Else it may catch up, or wait for others.
	Failed bool
	// Off is whether the server does not run, so that this node is not connected to the others
	// either.
	Off bool
	// Led is whether it knows a leader of the cluster: what is wrong is then not that
	// others are away.
	Led bool
	// Messages and Bytes are what all replicas here have: one that catches up moves.
	Messages, Bytes uint64
}

// ReplicaState is how the leader finds the replica of a node.
type ReplicaState struct {
	Node             string
	Current, Offline bool
	Active           time.Duration // since its last message
}

// Stores is what this node knows of its own replicas and of the other nodes' replicas.
type Stores struct {
	mu       sync.Mutex
	own      StoreState
	since    time.Time // own is not well since then
	sure     bool      // it was said, and is until own is well: a server that was just started is not yet
	moved    time.Time // what own has changed last
	obstacle string    // why it can't be restarted yet; "": it can
	heard    map[string]heardStore
	behind   map[string]time.Time // replicas that the leader does not find current, and since when
	away     map[string]bool      // of these, those whose server is gone
}

type heardStore struct {
	wrong string // "": it stores
	at    time.Time
}

// Look takes what the own server says.
func (s *Stores) Look(now time.Time, own StoreState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.Messages != s.own.Messages || own.Bytes != s.own.Bytes || own.Wrong == nil {
		s.moved = now
	}
	if own.Wrong == nil {
		s.since, s.sure, s.obstacle = time.Time{}, false, ""
	} else if s.since.IsZero() {
		s.since = now
	}
	s.own = own
}

// Hear takes what another node says of itself: Heartbeat.Wrong.
func (s *Stores) Hear(now time.Time, node, wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard == nil {
		s.heard = map[string]heardStore{}
	}
	for name, was := range s.heard {
		if now.Sub(was.at) > storesFor {
			delete(s.heard, name)
		}
	}
	if len(s.heard) < storesMost {
		s.heard[node] = heardStore{wrong[:min(len(wrong), reasonMost)], now}
	}
}

// OwnWrong returns why this node's replicas do not store, and whether that is sure. It is not sure while the node
// waits for others or catches up: that may end in a moment.
func (s *Stores) OwnWrong(now time.Time) (why string, sure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own.Wrong == nil {
		return "", false
	}
	if s.sure = s.sure || s.own.Failed || now.Sub(s.since) > storesSure; !s.sure {
		return "", false
	}
	why = s.own.Wrong.Error()
	if s.obstacle != "" {
		why += ": " + s.obstacle
	}
	return why[:min(len(why), reasonMost)], true
}

// See takes how the leader of the journal finds the replicas.
func (s *Stores) See(now time.Time, replicas []ReplicaState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.behind
	s.behind, s.away = map[string]time.Time{}, map[string]bool{}
	for _, peer := range replicas {
		if peer.Current && !peer.Offline && peer.Active < storesSure {
			continue
		}
		if s.behind[peer.Node] = was[peer.Node]; was[peer.Node].IsZero() {
			s.behind[peer.Node] = now
		}
		s.away[peer.Node] = peer.Offline
	}
}

// others are the other nodes whose replicas do not store, and why.
func (s *Stores) others(now time.Time, self string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := map[string]string{}
	for node, since := range s.behind {
		switch {
		case node == self:
		case s.away[node]:
			missing[node] = "its server does not run"
		case now.Sub(since) > storesSure:
			missing[node] = "it lags behind the others"
		}
	}
	for node, said := range s.heard {
		if said.wrong != "" && now.Sub(said.at) <= storesFor {
			missing[node] = said.wrong
		}
	}
	return missing
}

// Alarms tell whose replicas do not store.
func (s *Stores) Alarms(now time.Time, self string) (alarms []api.Alarm) {
	if why, sure := s.OwnWrong(now); sure {
		then := "What it counts is made durable by other nodes, while more than half of the replicas store; it goes on by itself once it can"
		s.mu.Lock()
		off := s.own.Off
		s.mu.Unlock()
		if off {
			then = fmt.Sprintf("Its embedded server does not run, so it is cut off from the other nodes, and what it counts waits in memory. It tries again; if the server can't be started for %v though the disk has space, the process ends, for its supervisor to restart it", GiveUpAfter)
		}
		alarms = append(alarms, api.Alarm{Code: "replica_failing", Message: fmt.Sprintf("this node's replica does not store (%s). %s", why, then)})
	}
	missing := s.others(now, self)
	for _, node := range slices.Sorted(maps.Keys(missing)) {
		alarms = append(alarms, api.Alarm{Code: "replica_missing", Message: fmt.Sprintf("the replica of node %s does not store: %s", node, missing[node])})
	}
	return alarms
}

// GiveUpAfter is how long a server with free disk space may fail to start before the process ends, for its supervisor
// to restart it.
const GiveUpAfter = 2 * time.Minute

// Due reports whether the server is to be restarted, and why.
func (s *Stores) Due(now time.Time) (why error, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.own.Wrong == nil:
		return nil, false
	case s.own.Failed:
		return s.own.Wrong, now.Sub(s.since) >= healSure
	}
	return s.own.Wrong, s.own.Led && now.Sub(s.since) > stuckAfter && now.Sub(s.moved) > stuckAfter
}

// Well reports whether the replicas were found to store and be current.
func (s *Stores) Well() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own.Wrong == nil
}

// Hinder notes why the server is not restarted.
func (s *Stores) Hinder(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.obstacle = why
}

// Started gives a server time to be well.
func (s *Stores) Started(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.obstacle = ""
	s.own.Wrong, s.own.Failed, s.own.Off = errStarting, false, false // until it was asked
	s.since, s.moved = now, now
}
