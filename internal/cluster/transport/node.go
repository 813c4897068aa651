package transport

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Node is a running connection with JetStream, and the embedded server if there
// is one. Its methods are safe for concurrent use.
type Node struct {
	cfg    Config
	server atomic.Pointer[natsserver.Server] // that runs now; nil with Config.URL
	here   atomic.Bool                       // it has all of its streams, and reports so to others
	stuck  atomic.Bool                       // it did not stop
	probes probes                            // of its health
	asked  bool                              // others may ask; written by Settled
	conn   *nats.Conn
	js     jetstream.JetStream
	damage []Damage
	seen   atomic.Int64 // most servers with JetStream that answered a Status, with Config.URL
	size   atomic.Int64 // of the cluster, when it was last looked at
	sized  atomic.Int64 // when that was, Unix time in nanoseconds; 0: never

	founded time.Time // until then Replicas counts on all of Peers; the zero time for a node that had streams
}

const (
	askTime  = 10 * time.Second // of one request to JetStream, if its context has no deadline
	probe    = 2 * time.Second  // of one request while JetStream is not ready, at most
	hasty    = probe / 8        // of the first: servers without a leader drop requests, and may have one soon
	between  = 50 * time.Millisecond
	sayState = 5 * time.Second

	tellState = 200 * time.Millisecond

	// foundingTime is for how long after its first start a node counts on all of Peers, whatever size the servers give
	// the cluster. Just after the first election that size may be one too few. A stream made then would stand still if
	// it lost one of its two replicas before Spread adds the third.
	foundingTime = 10 * time.Second
)

// Open joins, and returns when JetStream answers: in a cluster, when more than half of the nodes are here and have a
// leader. The very first time all must be here, because the vote of a node without a log does not count. Otherwise a
// node that lost its disk could help to elect a leader that lacks acknowledged messages. Until then Open says every 5
// s in the log what it waits for. ctx bounds that, and nothing afterwards.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	cfg, err := cfg.prepare()
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	n := &Node{cfg: cfg}
	n.size.Store(int64(len(cfg.Peers)))
	if err := n.open(ctx); err != nil {
		return nil, fmt.Errorf("join: %w", errors.Join(err, n.Close()))
	}
	return n, nil
}

func (n *Node) open(ctx context.Context) (err error) {
	founding := n.cfg.Cluster != "" && n.Embedded() && !DiskHasStreams(n.cfg.Dir)
	if n.cfg.URL != "" {
		err = n.dial(ctx)
	} else {
		err = n.startServer(ctx)
	}
	if err != nil {
		return err
	}
	if n.js, err = jetstream.New(n.conn, jetstream.WithDefaultTimeout(askTime)); err != nil {
		return err
	}
	if err := n.AwaitJetStream(ctx); err != nil {
		return err
	}
	if founding {
		n.founded = time.Now().Add(foundingTime)
	}
	if !n.Embedded() {
		err = n.countServers(ctx)
	}
	return err
}

// AwaitJetStream returns when JetStream answers, or ctx ends: being ready for connections is not enough.
func (n *Node) AwaitJetStream(ctx context.Context) error {
	wait := n.waiting("waiting for JetStream")
	for patience := hasty; ; patience = min(2*patience, probe) {
		asking, cancel := context.WithTimeout(ctx, patience)
		_, err := n.js.AccountInfo(asking)
		cancel()
		if err == nil {
			return nil
		}
		if err := wait.again(ctx, between, err); err != nil {
			return err
		}
	}
}

// countTries is how often an existing NATS is asked for its servers at the start, at most, each
// time for answerTime.
const countTries = 5

// countServers asks an existing NATS how many servers it has, for Replicas, until no further server answers. A stream
// made while some servers are busy would have too few replicas for good.
func (n *Node) countServers(ctx context.Context) error {
	before := 0
	for range countTries {
		s, err := n.Status(ctx)
		if err != nil {
			return err
		}
		if before > 0 && len(s.Servers) <= before {
			return nil
		}
		before = max(before, len(s.Servers))
	}
	return nil // they may not answer us
}

// Conn is the connection. It belongs to the Node: nobody else closes it.
func (n *Node) Conn() *nats.Conn { return n.conn }

// JetStream is the JetStream of Conn. Requests without a deadline end after 10 s.
func (n *Node) JetStream() jetstream.JetStream { return n.js }

// Embedded is whether the server is in this process.
func (n *Node) Embedded() bool { return n.cfg.URL == "" }

// Peers is how many nodes the configuration has, this one included; 0: of a node alone, or of an existing NATS, that is not known.
func (n *Node) Peers() int { return len(n.cfg.Peers) }

// Replicas is how many replicas a stream can have, at most want, at least 1. In a cluster all nodes count, up or not:
// otherwise a stream that is made while a node is late would lack a replica for ever. Making a stream may fail until
// enough nodes are up. An existing NATS counts the most servers that answered a Status; if none did, a cluster is
// believed to have enough. A server that is in no cluster is one.
func (n *Node) Replicas(want int) int {
	have := 1
	switch {
	case !n.Embedded():
		if have = int(n.seen.Load()); have == 0 && n.conn.ConnectedClusterName() != "" {
			have = want
		}
	case n.cfg.Cluster != "":
		have = n.Size()
		if time.Now().Before(n.founded) {
			have = max(have, len(n.cfg.Peers))
		}
	}
	return max(1, min(want, have, maxReplicas))
}

// maxReplicas is JetStream's own.
const maxReplicas = 5

// Close ends the connection, and the embedded server; it returns when all its
// files are closed, or ErrStuck. A leader hands over first.
func (n *Node) Close() error {
	if n.conn != nil {
		n.conn.Close()
	}
	return n.Stop()
}

// listener decides which nodes may connect to the cluster port: those that know the
// secret, and of each name one. Two nodes of one name would be one voter that
// votes twice; the server itself only notices when the two meet each other.
//
// A node says its name as the user name of its routes. One that comes back after
// its machine lost power waits until its old route is found dead, some 15 s.
type listener struct {
	secret string
	log    *slog.Logger
	server atomic.Pointer[natsserver.Server]
	said   atomic.Int64 // when a refusal was last logged, Unix time in nanoseconds
}

// sayEvery bounds how often refusals are logged: a refused node tries again
// every second.
const sayEvery = 10 * time.Second

// Check implements natsserver.Authentication.
func (d *listener) Check(c natsserver.ClientAuthentication) bool {
	node := c.GetOpts()
	given, want := sha256.Sum256([]byte(node.Password)), sha256.Sum256([]byte(d.secret))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		d.say("refused a node: it has another secret: all need the same --cluster-secret-file", c)
		return false
	}
	server := d.server.Load()
	routes, err := server.Routez(nil)
	if err != nil {
		return false // the server is shutting down
	}
	taken := node.Username == server.Name() && node.Name != server.ID() // itself, through its outer address, is let in and ends it
	for _, route := range routes.Routes {
		taken = taken || route.RemoteName == node.Username && route.RemoteID != node.Name
	}
	if taken {
		d.say("refused a node: its name is taken by another: give each node its own --node", c)
	}
	return !taken
}

func (d *listener) say(what string, c natsserver.ClientAuthentication) {
	last, now := d.said.Load(), time.Now().UnixNano()
	if now-last < int64(sayEvery) || !d.said.CompareAndSwap(last, now) {
		return
	}
	d.log.Error(what, "node", c.GetOpts().Username, "from", c.RemoteAddress())
}

// inProcess lets in clients of this process only: they come by a pipe. A client that
// gives the name of the system account joins it.
type inProcess struct {
	server atomic.Pointer[natsserver.Server]
}

const systemUser = "$SYS"

// Check implements natsserver.Authentication.
func (p *inProcess) Check(c natsserver.ClientAuthentication) bool {
	addr := c.RemoteAddress()
	if addr == nil || addr.Network() != "pipe" {
		return false
	}
	if c.GetOpts().Username == systemUser {
		c.RegisterUser(&natsserver.User{Username: systemUser, Account: p.server.Load().SystemAccount()})
	}
	return true
}

// Owner returns the cluster and the node that an embedded server's directory belongs to. Both names are empty for a
// node alone. filled is false if the directory has no files.
func Owner(dir string) (cluster, node string, filled bool, err error) {
	is, err := readIdentity(dir)
	if err != nil {
		return "", "", false, err
	}
	_, err = os.Stat(filepath.Join(dir, storeFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return is.Cluster, is.Node, is.Node != "", nil
	}
	return is.Cluster, is.Node, err == nil, err
}

// waiting logs now and then what Open waits for.
type waiting struct {
	node  *Node
	what  string
	since time.Time
	said  time.Time // in the log
	shown time.Time // to Config.Waiting
}

func (n *Node) waiting(what string) *waiting {
	now := time.Now()
	return &waiting{node: n, what: what, since: now, said: now}
}

// again returns nil when it is time for another attempt after err, or why there
// is none.
func (w *waiting) again(ctx context.Context, pause time.Duration, err error) error {
	if tell := w.node.cfg.Waiting; tell != nil && time.Since(w.shown) >= tellState {
		w.shown = time.Now()
		tell(w.what + ": " + w.node.state())
	}
	if time.Since(w.said) >= sayState {
		w.said = time.Now()
		w.node.cfg.Logger.Warn(w.what, "for", time.Since(w.since).Round(time.Second), "state", w.node.state(), "error", err)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: %s: %w", w.what, w.node.state(), errors.Join(context.Cause(ctx), err))
	case <-timer.C:
		return nil
	}
}

func (n *Node) state() string {
	switch {
	case !n.Embedded():
		return "at " + n.cfg.redactedURLs()
	case n.cfg.Cluster == "":
		return "one node alone"
	}
	here := []string{n.cfg.Node}
	for _, route := range n.routes() {
		here = append(here, route.Node)
	}
	all := n.Size()
	s := fmt.Sprintf("%d of %d nodes are running (%s), %d are needed, and all at the very first start", len(here), all, strings.Join(here, " "), all/2+1)
	if len(here) == 1 {
		s += fmt.Sprintf("; check that %s can be reached, and the logs there for a refusal", strings.Join(slices.DeleteFunc(slices.Clone(n.cfg.Peers), func(p string) bool { return p == n.cfg.Addr }), " "))
	}
	return s
}
