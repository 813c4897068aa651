package transport

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	_ "unsafe" // for go:linkname: nats-server has no settings for these

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// errBusy says that the server could not be asked for its state. That happens when this machine is slow for a
// millisecond, and says nothing about the server's store.
var errBusy = errors.New("embedded server: it has not answered yet")

// Health returns the error that the embedded server reports, or nil. After a write error the server keeps that error,
// and answers no publisher any more.
func (n *Node) Health() error {
	if err := n.health(); !errors.Is(err, errBusy) {
		return err
	}
	return nil
}

func (n *Node) health() error {
	if !n.Embedded() {
		return nil
	}
	server := n.server.Load()
	if server == nil || !server.Running() {
		return errStopped
	}
	found, err := n.probes.ask(server)
	if err != nil {
		return err
	}
	var busy error
	for _, wrong := range found {
		if wrong.Type != natsserver.HealthzErrorConn {
			return fmt.Errorf("embedded server: %s", wrong.Error)
		}
		busy = errBusy
	}
	return busy
}

const (
	// probeTime is how long one question for the health of a server waits, of which the answer may still come.
	probeTime = time.Second

	// silentAfter is how long a server may owe the answer. One that waits for a lock that is never released owes it for good.
	silentAfter = 30 * time.Second
)

// errSilent is how a server is that gives no answer at all.
var errSilent = errors.New("embedded server: it does not answer")

// probes ask a server for its health, one at a time: a server that does not answer takes no more than one goroutine.
type probes struct {
	mu     sync.Mutex
	server *natsserver.Server // that was asked last
	asked  time.Time
	answer chan []natsserver.HealthzError // nil: nobody is asked
}

func (p *probes) ask(server *natsserver.Server) ([]natsserver.HealthzError, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answer == nil || p.server != server {
		answer := make(chan []natsserver.HealthzError, 1)
		p.server, p.asked, p.answer = server, time.Now(), answer
		go func() { answer <- server.Healthz(&natsserver.HealthzOptions{Details: true}).Errors }()
	}
	select {
	case found := <-p.answer:
		p.answer = nil
		return found, nil
	case <-time.After(probeTime):
	}
	if time.Since(p.asked) > silentAfter {
		return nil, errSilent
	}
	return nil, errBusy
}

// gaveUp are parts of what the server says when it stores no more for as long as it runs.
var gaveUp = []string{"write error", "apply error", "meta layer is not running", "monitor goroutine not running"}

// Store asks the embedded server for the state of this node's replicas, of all streams that it keeps. known is false
// if the server could not be asked just now. It is also false with an existing NATS, whose servers check themselves.
func (n *Node) Store() (s replica.StoreState, known bool) {
	if !n.Embedded() {
		return s, false
	}
	if s.Wrong = n.health(); errors.Is(s.Wrong, errBusy) {
		return s, false
	}
	if s.Wrong == nil {
		return s, true
	}
	server := n.server.Load()
	if s.Off = server == nil || !server.Running(); s.Off || errors.Is(s.Wrong, errSilent) || !server.JetStreamEnabled() {
		s.Failed = true
		return s, true
	}
	for _, words := range gaveUp {
		s.Failed = s.Failed || strings.Contains(s.Wrong.Error(), words)
	}
	if info, err := server.Jsz(nil); err == nil {
		s.Messages, s.Bytes = info.Messages, info.Bytes
		s.Led = info.Meta != nil && info.Meta.Leader != ""
	}
	return s, true
}

// Groups describes the groups of replicas that this node is in, as the voters see them, for the log: why one has no leader is known
// to nothing else.
func (n *Node) Groups() string {
	server := n.server.Load()
	if server == nil || !server.Running() {
		return ""
	}
	answer := make(chan []byte, 1)
	go func() {
		data, _ := json.Marshal(server.Raftz(&natsserver.RaftzOptions{AccountFilter: "$G"})) // of streams
		answer <- data
	}()
	select {
	case data := <-answer:
		return string(data)
	case <-time.After(probeTime):
		return "the server does not answer"
	}
}

// StreamsHere returns how many streams the embedded server keeps a replica of. known is false with an existing NATS,
// or if the server could not be asked just now.
func (n *Node) StreamsHere() (streams int, known bool) {
	server := n.server.Load()
	if server == nil || !server.Running() || !server.JetStreamEnabled() {
		return 0, false
	}
	info, err := server.Jsz(nil)
	if err != nil {
		return 0, false
	}
	return info.Streams, true
}

// Status is what a node sees of the servers around it.
type Status struct {
	Node     string // this one; "" alone or with an existing NATS
	Cluster  string // "": none
	Embedded bool
	Server   string             // that this node is connected to
	Leader   string             // of JetStream as a whole; "" if there is none, or with an existing NATS, which does not tell
	Size     int                // nodes of the cluster, up or not; with an existing NATS, servers that answered
	Servers  []Server           // that answered, by name
	Routes   []api.ClusterRoute // of the embedded server, by name
}

// Server is one that answered.
type Server struct {
	Name      string
	ID        string // of this life of it
	Cluster   string
	Version   string
	JetStream bool
	RTT       time.Duration // from asking until its answer was here
}

// answerTime is how long Status waits for servers that it does not know of.
const answerTime = 300 * time.Millisecond

// pingSubject asks every server for the connections of our account. Servers answer it to every user. A user that is no
// administrator has no other way to find each server.
const pingSubject = "$SYS.REQ.SERVER.PING.CONNZ"

// Status asks all servers, and returns within a second of answers.
func (n *Node) Status(ctx context.Context) (Status, error) {
	s := Status{Node: n.cfg.Node, Cluster: n.cfg.Cluster, Embedded: n.Embedded(), Server: n.conn.ConnectedServerName()}
	if n.Embedded() && n.cfg.Cluster == "" { // has no system account that would answer
		rtt, err := n.conn.RTT()
		if err != nil {
			return s, fmt.Errorf("join: status: %w", err)
		}
		s.Size, s.Leader = 1, s.Server
		s.Servers = []Server{{Name: s.Server, ID: n.server.Load().ID(), Version: n.conn.ConnectedServerVersion(), JetStream: true, RTT: rtt}}
		return s, nil
	}
	var err error
	if s.Servers, err = n.ask(ctx); err != nil {
		return s, fmt.Errorf("join: status: %w", err)
	}
	s.Size = len(s.Servers)
	if n.Embedded() {
		s.Routes = n.routes()
		if info, err := n.server.Load().Jsz(nil); err == nil && info.Meta != nil {
			s.Leader, s.Size = info.Meta.Leader, info.Meta.Size
		}
		return s, nil
	}
	s.Cluster = n.conn.ConnectedClusterName()
	able := 0
	for _, server := range s.Servers {
		if server.JetStream && server.Cluster == s.Cluster {
			able++
		}
	}
	n.seen.Store(max(n.seen.Load(), int64(able))) // one that did not answer is busy, or will be back
	return s, nil
}

func (n *Node) ask(ctx context.Context) (servers []Server, err error) {
	inbox := n.conn.NewInbox()
	answers, err := n.conn.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, answers.Unsubscribe()) }()
	asked := time.Now()
	if err := n.conn.PublishRequest(pingSubject, inbox, []byte(`{"limit":1}`)); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for {
		msg, err := answers.NextMsgWithContext(waiting)
		switch {
		case err == nil:
		case errors.Is(err, nats.ErrNoResponders), waiting.Err() != nil && ctx.Err() == nil:
			slices.SortFunc(servers, func(a, b Server) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
			return servers, nil
		default:
			return nil, err
		}
		var answer struct {
			Server struct {
				Name, ID, Cluster string
				Version           string `json:"ver"`
				JetStream         bool   `json:"jetstream"`
			} `json:"server"`
		}
		if err := json.Unmarshal(msg.Data, &answer); err != nil {
			return nil, fmt.Errorf("a server's answer: %w", err)
		}
		is := answer.Server
		servers = append(servers, Server{is.Name, is.ID, is.Cluster, is.Version, is.JetStream, time.Since(asked)})
	}
}

// routes returns the routes of the embedded server, one for each other node.
func (n *Node) routes() []api.ClusterRoute {
	server := n.server.Load()
	if server == nil {
		return nil
	}
	info, err := server.Routez(nil)
	if err != nil {
		return nil // it shuts down
	}
	var routes []api.ClusterRoute
	for _, r := range info.Routes {
		i := slices.IndexFunc(routes, func(known api.ClusterRoute) bool { return known.Node == r.RemoteName })
		if i < 0 { // to each there are several, which share the work
			i = len(routes)
			routes = append(routes, api.ClusterRoute{Node: r.RemoteName, Addr: fmt.Sprintf("%s:%d", r.IP, r.Port)})
		}
		rtt, _ := time.ParseDuration(r.RTT) // "" until it is known
		routes[i].RTTS = max(routes[i].RTTS, rtt.Seconds())
		routes[i].PendingBytes += r.Pending
	}
	slices.SortFunc(routes, func(a, b api.ClusterRoute) int { return cmp.Compare(a.Node, b.Node) })
	return routes
}

// Accompanied reports whether the embedded server is connected to the server of another node. It is true for an
// existing NATS.
func (n *Node) Accompanied() bool { return !n.Embedded() || len(n.routes()) > 0 }

const (
	// throttleEvery is how often a message of one shape is logged at most.
	throttleEvery = time.Minute
	// maxShapes bounds how many shapes are distinguished. Messages quote junk that reaches the cluster port, so its
	// sender could otherwise fill the memory with shapes.
	maxShapes = 64
)

// varying are the words of a message that differ from one connection to the next:
// addresses, numbers and what was quoted.
var varying = regexp.MustCompile(`\S*[0-9'"]\S*`)

// throttle lets the first message of each shape in a minute through, and counts the others. The zero throttle is ready.
type throttle struct {
	mu             sync.Mutex
	since          time.Time
	shapes, before map[string]int // messages of each shape since then, and in the minute before
}

// pass reports whether to log a message now, and how many of its shape were not logged in the minute before.
func (t *throttle) pass(message string, now time.Time) (unsaid int, ok bool) {
	key := varying.ReplaceAllString(message, "#")
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) >= throttleEvery {
		t.since, t.before, t.shapes = now, t.shapes, map[string]int{}
	}
	if t.shapes[key] == 0 && len(t.shapes) >= maxShapes {
		key = "" // all further shapes together
	}
	t.shapes[key]++
	return max(t.before[key]-1, 0), t.shapes[key] == 1
}

//go:linkname minElectionTimeout github.com/nats-io/nats-server/v2/server.minElectionTimeout
var minElectionTimeout time.Duration

//go:linkname maxElectionTimeout github.com/nats-io/nats-server/v2/server.maxElectionTimeout
var maxElectionTimeout time.Duration

//go:linkname hbInterval github.com/nats-io/nats-server/v2/server.hbInterval
var hbInterval time.Duration

//go:linkname lostQuorumInterval github.com/nats-io/nats-server/v2/server.lostQuorumInterval
var lostQuorumInterval time.Duration

//go:linkname lostQuorumCheck github.com/nats-io/nats-server/v2/server.lostQuorumCheck
var lostQuorumCheck time.Duration

// Embedded servers replace a lost leader within 1.5 to 3.5 s, because their heartbeats are four times as frequent as
// the default. nats-server's own 4 to 9 s are for clusters over slow links. Until a stream has a leader nothing
// becomes durable, and limits that one node decides are not decided. This runs before the first server of the process,
// because servers read the times without a lock.
func init() {
	minElectionTimeout, maxElectionTimeout = 1500*time.Millisecond, 3500*time.Millisecond
	hbInterval, lostQuorumInterval, lostQuorumCheck = 250*time.Millisecond, 5*time.Second, time.Second
}
