package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// embedded is a NATS server within this process: no port, one client, its files
// in the data directory.
type embedded struct {
	server *natsserver.Server
	conn   *nats.Conn
	js     jetstream.JetStream
}

const (
	readyTimeout = 30 * time.Second
	askTimeout   = 10 * time.Second // of one request to the server
)

// startServer starts the server and waits until JetStream answers.
//
// SyncAlways, because by default a server acknowledges before its disk has the
// message. NoSigs and the logger, because an embedded server must neither handle
// signals, nor exit, nor write to the terminal.
func startServer(ctx context.Context, dir string, maxBytes int64, logger *slog.Logger) (*embedded, error) {
	server, err := natsserver.NewServer(&natsserver.Options{
		ServerName:         "weir",
		DontListen:         true,
		NoSigs:             true,
		JetStream:          true,
		StoreDir:           filepath.Join(dir, serverDir),
		SyncAlways:         true,
		JetStreamMaxMemory: 1, // nothing is kept in memory; 0 would mean three quarters of the machine
		JetStreamMaxStore:  maxBytes,
		NoSystemAccount:    true,
	})
	if err != nil {
		return nil, fmt.Errorf("journal: embedded server: %w", err)
	}
	server.SetLoggerV2(serverLog{logger}, false, false, false)
	e := &embedded{server: server}
	server.Start()
	if err := e.connect(ctx, logger); err != nil {
		e.stop()
		return nil, fmt.Errorf("journal: embedded server: %w", err)
	}
	return e, nil
}

func (e *embedded) connect(ctx context.Context, logger *slog.Logger) (err error) {
	if !e.server.ReadyForConnections(readyTimeout) {
		return fmt.Errorf("not ready within %v", readyTimeout)
	}
	e.conn, err = nats.Connect("", nats.InProcessServer(e.server), nats.Name("weir"), nats.MaxReconnects(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { logger.Warn("journal client", "error", err) }))
	if err != nil {
		return err
	}
	if e.js, err = jetstream.New(e.conn, jetstream.WithDefaultTimeout(askTimeout)); err != nil {
		return err
	}
	// Ready for connections is not yet ready for JetStream.
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if _, err = e.js.AccountInfo(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("JetStream is not ready: %w", errors.Join(ctx.Err(), err))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// health is nil, or what the server itself says is wrong: after an error of
// writing it keeps that error, and answers no publisher any more.
func (e *embedded) health() error {
	if !e.server.Running() {
		return errors.New("embedded server: it does not run")
	}
	for _, wrong := range e.server.Healthz(&natsserver.HealthzOptions{Details: true}).Errors {
		if wrong.Type != natsserver.HealthzErrorConn { // it has one when this machine is slow for a millisecond
			return fmt.Errorf("embedded server: %s", wrong.Error)
		}
	}
	return nil
}

// stop ends the server; it returns when all its files are closed.
func (e *embedded) stop() {
	if e.conn != nil {
		e.conn.Close()
	}
	e.server.Shutdown()
	e.server.WaitForShutdown()
}

// serverLog passes the server's messages on. A fatal one does not end the
// process: what it makes impossible fails by itself.
type serverLog struct{ logger *slog.Logger }

func (l serverLog) Noticef(format string, v ...any) { l.log(slog.LevelDebug, format, v) }
func (l serverLog) Debugf(format string, v ...any)  { l.log(slog.LevelDebug, format, v) }
func (l serverLog) Tracef(format string, v ...any)  { l.log(slog.LevelDebug, format, v) }
func (l serverLog) Warnf(format string, v ...any)   { l.log(slog.LevelWarn, format, v) }
func (l serverLog) Errorf(format string, v ...any)  { l.log(slog.LevelError, format, v) }
func (l serverLog) Fatalf(format string, v ...any)  { l.log(slog.LevelError, format, v) }

func (l serverLog) log(level slog.Level, format string, v []any) {
	l.logger.Log(context.Background(), level, "embedded NATS: "+strings.TrimSpace(fmt.Sprintf(format, v...)))
}
