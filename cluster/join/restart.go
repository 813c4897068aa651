package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// An embedded server that failed to write keeps that error until it is restarted.
// That happens within the process: the connection is not to a server but to whichever
// runs, and comes back by itself with all its subscriptions. So nobody who has it, or
// what was made of it, need know.

// errStopped is why the connection finds no server for a moment.
var errStopped = errors.New("embedded server: it does not run")

// InProcessConn implements nats.InProcessConnProvider: the connection is to the server
// that runs now.
func (n *Node) InProcessConn() (net.Conn, error) {
	server := n.server.Load()
	if server == nil || !server.Running() {
		return nil, errStopped
	}
	return server.InProcessConn()
}

// Stop ends the embedded server, and returns when all its files are closed. The
// connection stays, and waits for Start. Others are no longer told that this node has
// all, until Settled.
func (n *Node) Stop() {
	n.here.Store(false)
	if server := n.server.Load(); server != nil {
		server.Shutdown()
		server.WaitForShutdown()
	}
}

// Start starts the embedded server again after Stop, and returns when the connection is
// there, within ctx; JetStream need not answer yet. After an error it may be called
// again. Stop, Start and Close are not for more than one goroutine at a time.
func (n *Node) Start(ctx context.Context) error {
	if !n.Embedded() {
		return errors.New("join: there is no embedded server to start")
	}
	if server := n.server.Load(); server == nil || !server.Running() {
		if err := n.startServer(ctx); err != nil {
			n.Stop() // it may have come halfway
			return fmt.Errorf("join: %w", err)
		}
	}
	poll := time.NewTicker(between)
	defer poll.Stop()
	for !n.conn.IsConnected() {
		if err := n.conn.ForceReconnect(); err != nil { // at once, whatever it waits for
			return fmt.Errorf("join: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("join: the embedded server is not connected to: %w", context.Cause(ctx))
		case <-poll.C:
		}
	}
	return nil
}

// AwaitJetStream returns when JetStream answers, or ctx ends.
func (n *Node) AwaitJetStream(ctx context.Context) error { return n.awaitJetStream(ctx) }

// running is the embedded server, or nil. With Config.URL it is nil for ever.
func (n *Node) running() *natsserver.Server { return n.server.Load() }
