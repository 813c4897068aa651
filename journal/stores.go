package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-counter/weir/journal/join"
)

// storesSubject is where a node with an embedded server tells the others, every second,
// how its replicas are: its name, a line feed, and why they do not store; nothing more if
// they do. The servers' own view of each other is slower, and ends with the quorum, when
// it is needed most.
const storesSubject = "weir.stores"

const (
	// storesEvery is how often a node looks at its replicas, and tells.
	storesEvery = time.Second

	// storesFor is for how long what a node told is believed.
	storesFor = 10 * time.Second

	// storesSure is for how long a replica must lag to be called behind: under load each
	// one lags for a moment.
	storesSure = 5 * time.Second

	// storesMost bounds the nodes that are remembered, and a reason's bytes.
	storesMost, reasonMost = 1000, 300
)

// stores is what this node knows of the replicas: its own, and those of others.
type stores struct {
	mu       sync.Mutex
	own      join.Store
	since    time.Time // own is not well since then
	sure     bool      // it was said, and is until own is well: a server that was just started is not yet
	moved    time.Time // what own has changed last
	obstacle string    // why it can't be restarted yet; "": it can
	told     map[string]toldStore
	behind   map[string]time.Time // replicas that the leader does not find current, and since when
	away     map[string]bool      // of these, those whose server is gone
}

type toldStore struct {
	wrong string // "": it stores
	at    time.Time
}

// runStores looks at the replicas until ctx is done.
func (j *Journal) runStores(ctx context.Context) {
	tick := time.NewTicker(storesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if store, known := j.server.Store(); known {
			j.stores.look(time.Now(), store)
			j.tellStores()
		}
		j.lookAtReplicas(ctx)
	}
}

// listenToStores takes what the others tell, until the connection closes.
func (j *Journal) listenToStores() error {
	s := &j.stores
	_, err := j.server.Conn().Subscribe(storesSubject, func(msg *nats.Msg) {
		node, wrong, ok := strings.Cut(string(msg.Data), "\n")
		if ok && node != j.cfg.Join.Node {
			s.hear(time.Now(), node, wrong)
		}
	})
	return err
}

func (j *Journal) tellStores() {
	why, _ := j.stores.ownWrong(time.Now())
	if err := j.server.Conn().Publish(storesSubject, []byte(j.cfg.Join.Node+"\n"+why)); err != nil {
		j.log.Debug("journal: could not tell the other nodes whether this one stores", "error", err)
	}
}

// look takes what the own server says.
func (s *stores) look(now time.Time, own join.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.Messages != s.own.Messages || own.Bytes != s.own.Bytes || own.Wrong == nil {
		s.moved = now
	}
	if own.Wrong == nil {
		s.since, s.sure = time.Time{}, false
	} else if s.since.IsZero() {
		s.since = now
	}
	s.own = own
}

// hear takes what another node says of itself.
func (s *stores) hear(now time.Time, node, wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil {
		s.told = map[string]toldStore{}
	}
	for name, was := range s.told {
		if now.Sub(was.at) > storesFor {
			delete(s.told, name)
		}
	}
	if len(s.told) < storesMost {
		s.told[node] = toldStore{wrong[:min(len(wrong), reasonMost)], now}
	}
}

// ownWrong is why this node's replicas do not store, and whether that is sure: who waits
// for others, or catches up, may be well in a moment.
func (s *stores) ownWrong(now time.Time) (why string, sure bool) {
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

// lookAtReplicas asks the leader of the journal which replicas are current. While there
// is none, what the nodes tell of themselves is all there is.
func (j *Journal) lookAtReplicas(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storesEvery)
	defer cancel()
	info, err := j.store.at.Load().flushes.Info(ctx)
	if err != nil || info.Cluster == nil || info.Config.Replicas < 2 {
		return
	}
	j.stores.see(time.Now(), info)
}

// see takes how the leader of the journal finds the replicas.
func (s *stores) see(now time.Time, info *jetstream.StreamInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.behind
	s.behind, s.away = map[string]time.Time{}, map[string]bool{}
	for _, peer := range info.Cluster.Replicas {
		if peer.Current && !peer.Offline && peer.Active < storesSure {
			continue
		}
		if s.behind[peer.Name] = was[peer.Name]; was[peer.Name].IsZero() {
			s.behind[peer.Name] = now
		}
		s.away[peer.Name] = peer.Offline
	}
}

// others are the other nodes whose replicas do not store, and why.
func (s *stores) others(now time.Time, self string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := map[string]string{}
	for node, since := range s.behind {
		switch {
		case node == self:
		case s.away[node]:
			missing[node] = "its server is away"
		case now.Sub(since) > storesSure:
			missing[node] = "it lags behind the others"
		}
	}
	for node, told := range s.told {
		if told.wrong != "" && now.Sub(told.at) <= storesFor {
			missing[node] = told.wrong
		}
	}
	return missing
}

// storeAlarms tell whose replicas do not store: what is durable is then on fewer nodes
// than it should be.
func (j *Journal) storeAlarms() (alarms []Alarm) {
	if !j.cfg.clustered() {
		return nil
	}
	return j.stores.alarms(time.Now(), j.cfg.Join.Node)
}

func (s *stores) alarms(now time.Time, self string) (alarms []Alarm) {
	if why, sure := s.ownWrong(now); sure {
		alarms = append(alarms, Alarm{Code: "replica_failing", Message: fmt.Sprintf(
			"this node's replica does not store (%s). What it counts is made durable by other nodes, while more than half of the replicas store; it goes on by itself once it can", why)})
	}
	missing := s.others(now, self)
	for _, node := range slices.Sorted(maps.Keys(missing)) {
		alarms = append(alarms, Alarm{Code: "replica_missing", Message: fmt.Sprintf("the replica of node %s does not store: %s", node, missing[node])})
	}
	return alarms
}
