package join

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-counter/weir/cluster/join/ondisk"
)

// Node is a running connection with JetStream, and the embedded server if there
// is one. Its methods are safe for concurrent use.
type Node struct {
	cfg    Config
	server atomic.Pointer[natsserver.Server] // that runs now; nil with Config.URL
	here   atomic.Bool                       // it has all of its streams: others are told
	asked  bool                              // others may ask; written by Settled
	conn   *nats.Conn
	js     jetstream.JetStream
	damage []ondisk.Damage
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

	// foundingTime is for how long after its first start a node counts on all of Peers,
	// whatever size the servers give the cluster. In the moments after their first election
	// that may be one too few: a stream made then would stand still when one of its two
	// replicas is lost, until Spread adds the third.
	foundingTime = 10 * time.Second
)

// Open joins, and returns when JetStream answers: in a cluster, when more than
// half of the nodes are here and have a leader. The very first time all must be:
// a node without a log has no vote that counts, or one that lost its disk could
// help to elect a leader that lacks what was acknowledged. Until then Open says
// every 5 s in the log what it waits for. ctx bounds that, and nothing
// afterwards.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	cfg, err := cfg.prepare()
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	n := &Node{cfg: cfg}
	n.size.Store(int64(len(cfg.Peers)))
	if err := n.open(ctx); err != nil {
		n.Close()
		return nil, fmt.Errorf("join: %w", err)
	}
	return n, nil
}

func (n *Node) open(ctx context.Context) (err error) {
	founding := n.cfg.Cluster != "" && n.Embedded() && !ondisk.HasStreams(n.cfg.Dir)
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
	if err := n.awaitJetStream(ctx); err != nil {
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

// awaitJetStream returns when JetStream answers: being ready for connections is
// not enough.
func (n *Node) awaitJetStream(ctx context.Context) error {
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

// countServers asks an existing NATS how many servers it has, for Replicas, until none answers
// that did not before: a stream made while some are busy would have too few replicas for good.
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

// Replicas is how many replicas a stream can have, at most want, at least 1. In
// a cluster all nodes count, up or not, so that a stream that is made while one
// is late is not short of a replica for ever; to make it may fail until enough
// are up. An existing NATS counts the most servers that answered a Status; if
// none may answer us, it is believed to have enough.
func (n *Node) Replicas(want int) int {
	have := 1
	switch {
	case !n.Embedded():
		if have = int(n.seen.Load()); have == 0 {
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
// files are closed. A leader hands over first.
func (n *Node) Close() {
	if n.conn != nil {
		n.conn.Close()
	}
	n.Stop()
}
