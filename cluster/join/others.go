package join

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// hereSubject takes a request without content. A node that has all of its streams answers:
// the cluster's size as it knows it, an unsigned varint, and its name.
const hereSubject = "weir.here"

const (
	lookTime  = 5 * time.Second // for routes to the others, and their answers
	lookEvery = time.Second
)

// tellHere answers from now on, until the connection closes, while this node has all.
func (n *Node) tellHere() error {
	if n.asked {
		return nil
	}
	_, err := n.conn.Subscribe(hereSubject, func(msg *nats.Msg) {
		if !n.here.Load() {
			return
		}
		answer := binary.AppendUvarint(nil, uint64(n.Size()))
		if err := msg.Respond(append(answer, n.cfg.Node...)); err != nil {
			n.cfg.Logger.Warn("could not answer a node that asked which nodes are running", "error", err)
		}
	})
	n.asked = err == nil
	return err
}

// keeps tells whether this node keeps a replica.
func (n *Node) keeps(at *jetstream.ClusterInfo) bool {
	if at.Leader == n.cfg.Node {
		return true
	}
	for _, peer := range at.Replicas {
		if peer.Name == n.cfg.Node {
			return true
		}
	}
	return false
}

// lookAtOthers joins with a server that stores nothing and has no vote, and counts the
// other nodes that answer. needed is how many are a majority without this one.
func (n *Node) lookAtOthers(ctx context.Context) (here, needed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	options, err := clusterOptions(n.cfg)
	if err != nil {
		return 0, 0, err
	}
	options.JetStream, options.StoreDir = false, ""
	door, clients := &door{secret: n.cfg.Secret, log: n.cfg.Logger}, new(inProcess)
	options.CustomRouterAuthentication, options.CustomClientAuthentication = door, clients
	server, err := natsserver.NewServer(options)
	if err != nil {
		return 0, 0, err
	}
	server.SetLoggerV2(&serverLog{logger: n.cfg.Logger}, false, false, false)
	door.server.Store(server)
	clients.server.Store(server)
	server.Start()
	defer func() {
		server.Shutdown()
		server.WaitForShutdown()
	}()
	if !server.ReadyForConnections(lookTime) {
		return 0, 0, fmt.Errorf("%s can't be listened on", n.cfg.Listen)
	}
	conn, err := nats.Connect("", append(n.clientOptions(), nats.InProcessServer(server))...)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	return countHere(ctx, conn, len(n.cfg.Peers), n.cfg.Node)
}

// countHere asks until as many answered as are needed, or ctx ends.
func countHere(ctx context.Context, conn *nats.Conn, size int, self string) (here, needed int, err error) {
	inbox := conn.NewInbox()
	answers, err := conn.SubscribeSync(inbox)
	if err != nil {
		return 0, 0, err
	}
	nodes := map[string]bool{}
	ask := time.NewTicker(between)
	defer ask.Stop()
	for needed = size/2 + 1; len(nodes) < needed; {
		select {
		case <-ctx.Done():
			return len(nodes), needed, nil
		case <-ask.C:
		}
		if err := conn.PublishRequest(hereSubject, inbox, nil); err != nil {
			return len(nodes), needed, err
		}
		for {
			msg, err := answers.NextMsg(between)
			if err != nil {
				break // no other yet
			}
			knows, length := binary.Uvarint(msg.Data)
			if length <= 0 || knows > maxNodes {
				continue
			}
			size = max(size, int(knows))
			if node := string(msg.Data[length:]); node != self {
				nodes[node] = true
			}
		}
		needed = size/2 + 1
	}
	return len(nodes), needed, nil
}

// maxNodes is more than a cluster has.
const maxNodes = 10_000
