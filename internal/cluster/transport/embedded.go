package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	handshakeTime = 5 * time.Second // of TLS between nodes, on a machine under load
	routePing     = 5 * time.Second // a route that is silent for three of them is dead
	readyPoll     = 100 * time.Millisecond

	// reports is after how many attempts to connect to a node that went away a failure
	// is logged again. There is one a second, without the server's back-off: after a long
	// cut that would wait for up to 30 s.
	reports = 60
)

// serverOptions returns the options of the embedded server.
//
// SyncAlways, because by default a server acknowledges before its disk has the
// message. NoSigs and the logger, because an embedded server must neither handle
// signals, nor exit, nor write to the terminal.
func serverOptions(cfg Config) *natsserver.Options {
	return &natsserver.Options{
		ServerName:             "weir",
		DontListen:             true,
		NoSigs:                 true,
		DisableJetStreamBanner: true,
		JetStream:              true,
		StoreDir:               cfg.Dir,
		SyncAlways:             true,
		JetStreamMaxMemory:     1, // nothing is kept in memory; 0 would mean three quarters of the machine
		JetStreamMaxStore:      cfg.MaxBytes,
		NoSystemAccount:        true,
	}
}

// clusterOptions returns the options of a node of a cluster.
//
// The server must listen for clients, because with DontListen version 2.15.2 never opens the cluster port. It listens
// on loopback, at a port that the system chooses and Weir does not publish, and admits nobody there.
//
// This node's own address is among the routes. Their number is the size of the cluster that elects its first leader.
// Without this node's address the server would count one node too few.
func clusterOptions(cfg Config) (*natsserver.Options, error) {
	o := serverOptions(cfg)
	o.ServerName = cfg.Node
	o.NoSystemAccount = false // nodes talk in it
	o.ReconnectErrorReports = reports
	o.DontListen, o.Host, o.Port = false, "127.0.0.1", natsserver.RANDOM_PORT

	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, err
	}
	o.Cluster = natsserver.ClusterOpts{
		Name:         cfg.Cluster,
		Host:         host,
		Advertise:    cfg.Addr,
		NoAdvertise:  true, // the port for clients
		Username:     cfg.Node,
		Password:     cfg.Secret,
		AuthTimeout:  2 * handshakeTime.Seconds(),
		TLSTimeout:   handshakeTime.Seconds(),
		PingInterval: routePing,
	}
	if o.Cluster.Port, err = strconv.Atoi(port); err != nil {
		return nil, err
	}
	if !cfg.TLS.none() {
		if o.Cluster.TLSConfig, err = nodeTLS(cfg.TLS); err != nil {
			return nil, err
		}
	}
	for _, peer := range cfg.Peers {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", User: url.UserPassword(cfg.Node, cfg.Secret), Host: peer})
	}
	return o, nil
}

// startServer starts the server; it may not be ready for JetStream yet.
func (n *Node) startServer(ctx context.Context) error {
	options := serverOptions(n.cfg)
	if n.cfg.Cluster != "" {
		var err error
		if options, err = clusterOptions(n.cfg); err != nil {
			return err
		}
	}
	as := identity{n.cfg.Cluster, n.cfg.Node}
	if err := claim(n.cfg.Dir, as); err != nil {
		return err
	}
	if n.cfg.Cluster == "" {
		if err := CheckSequences(n.cfg.Dir); err != nil {
			return err
		}
	} else if !n.cfg.Unchecked {
		if err := n.quarantine(ctx); err != nil {
			return err
		}
		if err := claim(n.cfg.Dir, as); err != nil {
			return err
		}
	}
	listener, clients := &listener{secret: n.cfg.Secret, log: n.cfg.Logger}, new(inProcess)
	if n.cfg.Cluster != "" {
		options.CustomRouterAuthentication, options.CustomClientAuthentication = listener, clients
	}
	server, err := natsserver.NewServer(options)
	if err != nil {
		return err
	}
	log := &serverLog{logger: n.cfg.Logger}
	server.SetLoggerV2(log, false, false, false)
	listener.server.Store(server)
	clients.server.Store(server)
	n.server.Store(server)
	server.Start()
	for !server.ReadyForConnections(readyPoll) {
		if fatal := log.fatal.Load(); fatal != nil {
			return errors.New(*fatal)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the embedded server does not start: %w", context.Cause(ctx))
		}
	}
	if n.conn != nil {
		return nil // it comes back by itself
	}
	return n.connect(ctx, append(n.clientOptions(), nats.InProcessServer(n)))
}

// connect tries until ctx ends: a server that recovers its streams may accept a
// connection and then be silent for seconds.
func (n *Node) connect(ctx context.Context, options []nats.Option) (err error) {
	wait := n.waiting("waiting for the embedded server")
	for {
		if n.conn, err = nats.Connect("", options...); err == nil {
			return nil
		}
		if err := wait.again(ctx, between, err); err != nil {
			return err
		}
	}
}

// An embedded server that failed to write keeps that error until it is restarted.
// That happens within the process: the connection is to whichever server runs, and
// comes back by itself with all its subscriptions. So its users need not know.

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

// stopTime is how long a server may take to stop: it syncs its files, on a disk that may be slow. One that takes longer waits
// for a lock that is never released. A purge of a stream ends so when the disk is full (PurgeEx of nats-server 2.15.2).
const stopTime = 30 * time.Second

// ErrStuck is why a server that does not stop can't be started again: its files may be open. Only the end of the process
// helps.
var ErrStuck = errors.New("the embedded server does not stop: restart this process")

// Stop ends the embedded server, and returns when all its files are closed, or ErrStuck. The connection stays, and waits for Start.
// Until Settled, this node no longer reports to others that it has all streams.
func (n *Node) Stop() error {
	n.here.Store(false)
	server := n.server.Load()
	if server == nil {
		return nil
	}
	if n.stuck.Load() {
		return ErrStuck
	}
	stopped := make(chan struct{})
	go func() {
		server.Shutdown() // returns at once if it was called before
		server.WaitForShutdown()
		close(stopped)
	}()
	select {
	case <-stopped:
		return nil
	case <-time.After(stopTime):
		n.stuck.Store(true)
		return ErrStuck
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
			return fmt.Errorf("join: %w", errors.Join(err, n.Stop())) // it may have come halfway
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

// serverLog passes the server's messages on. A fatal one does not end the
// process: Open returns it.
type serverLog struct {
	logger *slog.Logger
	fatal  atomic.Pointer[string] // the first one
	// Limits the log lines about connections: anybody who reaches the cluster port causes one with each connection.
	throttle throttle
}

func (l *serverLog) Noticef(format string, v ...any) { l.log(slog.LevelDebug, format, v) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log(slog.LevelDebug, format, v) }
func (l *serverLog) Tracef(format string, v ...any)  { l.log(slog.LevelDebug, format, v) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log(slog.LevelWarn, format, v) }
func (l *serverLog) Errorf(format string, v ...any)  { l.log(slog.LevelError, format, v) }

func (l *serverLog) Fatalf(format string, v ...any) {
	message := strings.TrimSpace(fmt.Sprintf(format, v...))
	l.fatal.CompareAndSwap(nil, &message)
	l.log(slog.LevelError, format, v)
}

func (l *serverLog) log(level slog.Level, format string, v []any) {
	if !l.logger.Enabled(context.Background(), level) {
		return
	}
	message := strings.TrimSpace(fmt.Sprintf(format, v...))
	var attrs []any
	if level >= slog.LevelWarn {
		unsaid, ok := l.throttle.pass(message, time.Now())
		if !ok {
			return
		}
		if unsaid > 0 {
			attrs = []any{"more_like_it_since", unsaid}
		}
	}
	l.logger.Log(context.Background(), level, "embedded NATS: "+message, attrs...)
}
