package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// minPayload is in bytes: flushes are as large as that.
const minPayload = 1 << 20

const (
	dialTime     = 5 * time.Second
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

func (cfg Config) checkURL() error {
	for one := range strings.SplitSeq(cfg.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			return errors.New("--nats: not an URL: use nats://host:port, several separated by commas") // without it: it may have a password
		}
		if u.Host == "" || (u.Scheme != "nats" && u.Scheme != "tls") {
			return fmt.Errorf("--nats %s: use nats://host:port or tls://host:port", u.Redacted())
		}
	}
	if (cfg.ClientTLS.Cert == "") != (cfg.ClientTLS.Key == "") {
		return errors.New("--nats-tls has only one of tls.crt and tls.key: put both there, or neither")
	}
	if cfg.Creds != "" {
		if _, err := os.Stat(cfg.Creds); err != nil {
			return fmt.Errorf("--nats-creds: %w", err)
		}
	}
	return nil
}

func (cfg Config) redactedURLs() string {
	var all []string
	for one := range strings.SplitSeq(cfg.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil {
			all = append(all, u.Redacted())
		}
	}
	return strings.Join(all, ", ")
}

// beyondLoopback is whether any of the URLs leaves this machine.
func (cfg Config) beyondLoopback() bool {
	for one := range strings.SplitSeq(cfg.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err != nil || !Loopback(u.Host) {
			return true
		}
	}
	return false
}

// dial connects to the existing NATS: until ctx ends if it isn't there, but not
// if it refuses us.
func (n *Node) dial(ctx context.Context) error {
	options, err := n.externalOptions()
	if err != nil {
		return err
	}
	wait := n.waiting("waiting for the existing NATS (--nats)")
	for attempt := 1; ; attempt++ {
		n.conn, err = nats.Connect(n.cfg.URL, options...)
		switch {
		case err == nil:
			return n.accept()
		case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
			return fmt.Errorf("--nats refused the user: %w: check --nats-creds, or the user and password in the URL", err)
		case errors.Is(err, nats.ErrSecureConnWanted), errors.Is(err, nats.ErrSecureConnRequired):
			return fmt.Errorf("--nats offers no TLS, which --nats-tls and a host beyond loopback ask for: %w: turn it on there, or say --insecure-peers", err)
		}
		if err := wait.again(ctx, backoff(attempt), err); err != nil {
			return err
		}
	}
}

// accept checks what can only be seen of a connection that is there.
func (n *Node) accept() error {
	if max := n.conn.MaxPayload(); max < minPayload {
		return fmt.Errorf("--nats takes messages of at most %d bytes: set max_payload to %d or more there", max, minPayload)
	}
	if n.cfg.beyondLoopback() && !n.cfg.Insecure && !n.conn.AuthRequired() {
		return errors.New("--nats is beyond loopback and lets everybody in: set up a user there, or say --insecure-peers")
	}
	n.cfg.Logger.Info("connected to an existing NATS. Set sync_interval: always there, or acknowledged hits may not survive a power cut")
	return nil
}

func (n *Node) externalOptions() ([]nats.Option, error) {
	options := append(n.clientOptions(), nats.Timeout(dialTime))
	cfg := n.cfg
	if cfg.Creds != "" {
		options = append(options, nats.UserCredentials(cfg.Creds))
	}
	if cfg.ClientTLS.none() {
		if cfg.beyondLoopback() && !cfg.Insecure {
			options = append(options, nats.Secure())
		}
		return options, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if cfg.ClientTLS.CA != "" {
		if t.RootCAs, err = authorities("--nats-tls", cfg.ClientTLS.CA); err != nil {
			return nil, err
		}
	} else if t.RootCAs, err = x509.SystemCertPool(); err != nil {
		return nil, err
	}
	if cfg.ClientTLS.Cert != "" {
		cert, err := tls.LoadX509KeyPair(cfg.ClientTLS.Cert, cfg.ClientTLS.Key)
		if err != nil {
			return nil, fmt.Errorf("--nats-tls: %w", err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return append(options, nats.Secure(t)), nil
}

// clientOptions returns the options of every connection. A connection reconnects for ever. Meanwhile a publish fails
// at once: hits wait in the flusher, not in a buffer of the client. The flusher has a bound and knows what was
// acknowledged.
func (n *Node) clientOptions() []nats.Option {
	log := n.cfg.Logger
	return []nats.Option{
		nats.Name(strings.TrimSpace("weir " + n.cfg.Node)),
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(backoff),
		nats.IgnoreAuthErrorAbort(), // a user may be missing for the moment of a change over there
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("lost the connection to NATS; will retry", "error", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) { log.Info("reconnected to NATS", "server", c.ConnectedServerName()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Warn("NATS client", "error", err) }),
	}
}

// backoff is how long to wait after so many failed attempts.
func backoff(attempts int) time.Duration {
	return min(maxBackoff, firstBackoff<<min(max(attempts-1, 0), 8))
}

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

// keeps reports whether this node keeps a replica.
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

// lookAtOthers joins with a server that stores nothing and has no vote, and counts the other nodes that answer. needed
// is the majority of the cluster when this node is not counted.
func (n *Node) lookAtOthers(ctx context.Context) (here, needed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	options, err := clusterOptions(n.cfg)
	if err != nil {
		return 0, 0, err
	}
	options.JetStream, options.StoreDir = false, ""
	listener, clients := &listener{secret: n.cfg.Secret, log: n.cfg.Logger}, new(inProcess)
	options.CustomRouterAuthentication, options.CustomClientAuthentication = listener, clients
	server, err := natsserver.NewServer(options)
	if err != nil {
		return 0, 0, err
	}
	server.SetLoggerV2(&serverLog{logger: n.cfg.Logger}, false, false, false)
	listener.server.Store(server)
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

// Spread gives all streams as many replicas as there can be, at most want. A stream has fewer if it was made when
// there were fewer nodes. Its messages are copied afterwards. Streams of an existing NATS are left as they are.
func (n *Node) Spread(ctx context.Context, want int) error {
	if !n.Embedded() {
		return nil
	}
	streams := n.js.ListStreams(ctx)
	for info := range streams.Info() {
		to := info.Config
		if have := to.Replicas; have < n.Replicas(want) {
			to.Replicas = n.Replicas(want)
			if _, err := n.js.UpdateStream(ctx, to); err != nil {
				return fmt.Errorf("join: %s on %d nodes, in place of %d: %w", to.Name, to.Replicas, have, err)
			}
			n.cfg.Logger.Info("spread a stream over more nodes", "stream", to.Name, "nodes", to.Replicas, "before", have)
		}
	}
	return streams.Err()
}
