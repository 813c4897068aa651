package join

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// Status is what a node sees of the servers around it.
type Status struct {
	Node     string // this one; "" alone or with an existing NATS
	Cluster  string // "": none
	Embedded bool
	Server   string   // that this node is connected to
	Leader   string   // of JetStream as a whole; "" if there is none, or with an existing NATS, which does not tell
	Size     int      // nodes of the cluster, up or not; with an existing NATS, servers that answered
	Servers  []Server // that answered, by name
	Routes   []Route  // of the embedded server, by name
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

// Route is a connection to another node of the cluster.
type Route struct {
	Node    string
	Addr    string        // of the other end of the connection, not always Config.Addr
	RTT     time.Duration // 0: not yet known
	Pending int           // bytes that wait to be sent: what grows here does not keep up
}

// answerTime is how long Status waits for servers that it does not know of.
const answerTime = 300 * time.Millisecond

// pingSubject asks every server for the connections of our account; servers
// answer it to anybody. Which is the only way for a user that is no administrator
// to hear of each server.
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
		s.Servers = []Server{{Name: s.Server, ID: n.running().ID(), Version: n.conn.ConnectedServerVersion(), JetStream: true, RTT: rtt}}
		return s, nil
	}
	var err error
	if s.Servers, err = n.ask(ctx); err != nil {
		return s, fmt.Errorf("join: status: %w", err)
	}
	s.Size = len(s.Servers)
	if n.Embedded() {
		s.Routes = n.routes()
		if info, err := n.running().Jsz(nil); err == nil && info.Meta != nil {
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

// ask collects the servers' answers.
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

// routes are those of the embedded server, one for each other node.
func (n *Node) routes() []Route {
	server := n.running()
	if server == nil {
		return nil
	}
	info, err := server.Routez(nil)
	if err != nil {
		return nil // it shuts down
	}
	var routes []Route
	for _, r := range info.Routes {
		i := slices.IndexFunc(routes, func(known Route) bool { return known.Node == r.RemoteName })
		if i < 0 { // to each there are several, which share the work
			i = len(routes)
			routes = append(routes, Route{Node: r.RemoteName, Addr: fmt.Sprintf("%s:%d", r.IP, r.Port)})
		}
		rtt, _ := time.ParseDuration(r.RTT) // "" until it is known
		routes[i].RTT = max(routes[i].RTT, rtt)
		routes[i].Pending += r.Pending
	}
	slices.SortFunc(routes, func(a, b Route) int { return cmp.Compare(a.Node, b.Node) })
	return routes
}

// Accompanied is whether the embedded server is connected to that of another node; of an
// existing NATS, always.
func (n *Node) Accompanied() bool { return !n.Embedded() || len(n.routes()) > 0 }
