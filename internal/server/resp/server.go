// Package resp is the listener of Weir for clients of Redis, in RESP2 and RESP3. It answers Weir's own commands (HIT,
// COUNT, ALLOW, ...), CL.THROTTLE, and the commands of Redis from which limits per fixed window are built. docs/resp.md
// lists them.
//
// Invariants. Each connection has one goroutine, and the number of connections is bounded. Replies come in the order of
// the requests. They are sent when no further whole request has been received. A request that does not fit the small
// buffer takes memory of Pools.Buffered. HIT and INCR of existing keys allocate nothing. While the listener waits for a
// client, it holds no place of a pool that one client could use up.
//
// Package service answers everything except counters, which package counters keeps (counting.go). Among nodes one of
// them keeps the counters, and sessions of all nodes ask it (forward.go).
package resp

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine/counters"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/units"
)

// Server is the RESP listener of a service. Create it with New; a Server runs once.
type Server struct {
	service  *service.Service
	cfg      Config // defaults applied, valid
	log      *slog.Logger
	commands *commands
	scripts  *ScriptTable
	counters *counters.Table
	owner    service.CounterOwner // nil: this node keeps the counters
	clock    func() time.Time

	listener.Address
	stopping atomic.Bool
	accepted atomic.Uint64
	serving  listener.Serving
}

// New returns a Server for svc that does not listen yet. It fails with a *engine.Error of
// CodeInvalidConfig that names the field at fault.
func New(svc *service.Service, cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		service: svc, cfg: cfg, log: cfg.Logger, commands: newCommands(), scripts: NewScriptTable(), counters: svc.Backend().Engine.Counters(), owner: svc.Backend().Counters,
	}
	for _, c := range s.commands.list {
		c.took = svc.Timer("resp", c.name)
	}
	s.clock = func() time.Time { return time.Unix(0, svc.Backend().Engine.Limits().Clock.Now()) }
	if s.owner != nil {
		s.owner.Serve(s.runFar)
	}
	return s, nil
}

// Listen opens Config.Addr. Clients that connect wait until Run. After TakeOver, and a second time, it does nothing.
func (s *Server) Listen() error { return s.Address.Listen(s.cfg.Addr, s.cfg.MaxConns) }

// Run serves until ctx is done and then stops: requests that were received are answered, within
// StopTimeout, and connections close. It returns nil after a clean stop. It calls Listen when
// the caller has not.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	s.log.Info("serving RESP", "addr", s.Addr())
	if access.OpenToOthers(s.Addr()) && !s.service.Locked() {
		s.log.Warn("other machines can reach the RESP address, and there is no tokens file: anybody who reaches it can read, hit and delete", "addr", s.Addr())
	}
	alive, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	failed := make(chan error, 1)
	go func() {
		failed <- s.serving.Accept(s.Listener(), s.log, func(c *listener.Conn) { newSession(alive, s, c, s.accepted.Add(1)).serve() })
	}()
	select {
	case err := <-failed:
		s.stop()
		return fmt.Errorf("serve RESP on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	if s.cfg.DrainDelay > 0 {
		<-time.After(s.cfg.DrainDelay)
	}
	s.stop()
	if err := <-failed; err != nil {
		s.log.Warn("could not accept RESP connections", "error", err)
	}
	drained := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		return nil
	case <-time.After(s.cfg.StopTimeout):
	}
	cut()
	n := s.serving.End(func(c *listener.Conn) { _ = c.Close() }) // which ends its goroutine
	<-drained
	return fmt.Errorf("stop: %d RESP connections were cut off after %v", n, s.cfg.StopTimeout)
}

// stop ends the wait of all connections for their clients, and closes the address.
func (s *Server) stop() {
	s.stopping.Store(true)
	s.serving.End((*listener.Conn).Wake)
	if err := s.Close(); err != nil {
		s.log.Warn("could not close the RESP address", "error", err)
	}
}

// Config has the settings of a Server. The zero value of each field stands for its default.
type Config struct {
	listener.Settings // Addr is 127.0.0.1:6379 by default

	// CountPrefix begins the keys of counters of which an increment counts as hits too. "": none.
	CountPrefix string
}

// protocolLimits bound what one client may send.
var protocolLimits = ProtocolLimits{Buffer: 8 << 10, Request: 1 << 20, Args: 1 << 16, Bulk: 64 << 10, Inline: 8 << 10}

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c Config) WithDefaults() Config {
	c.Settings = c.Settings.WithDefaults("127.0.0.1:6379")
	return c
}

// Validate returns a *engine.Error of CodeInvalidConfig that names the first field outside what
// it may be. New does the same.
func (c Config) Validate() error {
	c = c.WithDefaults()
	return c.Settings.Validate()
}

// Opening holds the address of a Server that is still starting. It answers LOADING to the first requests of a
// connection and closes it. Clients then try again on a new connection, and set it up again, such as with HELLO.
// TakeOver passes the address to the Server.
type Opening = listener.Opening

// Open listens on cfg.Addr, so that an address in use is found before any long work. It answers with the text that
// phase returns, such as "loading: the journal is read". Close it if no Server takes it over.
func Open(cfg Config, phase func() string) (*Opening, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	o, err := listener.OpenListener(cfg.Addr, cfg.MaxConns, cfg.Logger, func(c net.Conn) { refuse(c, cfg, phase) })
	if err != nil {
		return nil, err
	}
	cfg.Logger.Info("listening for clients of Redis; not ready yet", "addr", o.Addr())
	return o, nil
}

// refuse answers the first requests of a connection, as far as they arrived together.
func refuse(c net.Conn, cfg Config, phase func() string) {
	stream := c
	if cfg.TLS != nil {
		stream = tls.Server(c, cfg.TLS)
	}
	if err := c.SetDeadline(time.Now().Add(cfg.RequestTimeout)); err != nil {
		return
	}
	small := ProtocolLimits{Buffer: protocolLimits.Buffer, Request: protocolLimits.Buffer, Args: protocolLimits.Args, Bulk: protocolLimits.Buffer, Inline: protocolLimits.Inline}
	in, out := NewReader(stream, small, nil), NewWriter(stream)
	defer in.Release()
	answered := false
	for {
		args, err := in.Next()
		if err == nil && args != nil {
			out.Error("LOADING", "Weir is not ready yet: "+phase())
			answered = true
			continue
		}
		if err != nil || answered || in.Fill() != nil {
			break
		}
	}
	if answered && out.Flush() == nil {
		linger(stream)
	}
}

// linger lets the client read the answer: closing a connection with unread bytes would discard it.
func linger(stream net.Conn) {
	half, ok := stream.(interface{ CloseWrite() error })
	if wrapped, is := stream.(*listener.Conn); is {
		half, ok = wrapped.Conn.(interface{ CloseWrite() error })
	}
	if ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, stream) // until it leaves, or its time is over
	}
}

// Figures implements service.Listener.
func (s *Server) Figures() access.ListenerFigures {
	kept := s.counters.Stats()
	f := access.ListenerFigures{
		Name: "resp", Failed: s.commands.failed.Load(),
		Keys: kept.Keys, Bytes: kept.Bytes, BytesBound: kept.Bound, Refused: kept.Refused,
	}
	for _, c := range s.commands.list {
		f.Requests = append(f.Requests, access.ListenerRequests{Kind: c.name, Count: c.calls.Load()})
	}
	f.Requests = append(f.Requests, access.ListenerRequests{Kind: "unknown", Count: s.commands.unknown.Load()})
	s.Connections(&f)
	return f
}

// sent returns how many requests there were.
func (s *Server) sent() (n uint64) {
	for _, c := range s.commands.list {
		n += c.calls.Load()
	}
	return n + s.commands.unknown.Load()
}

// Alarms implements service.Listener.
func (s *Server) Alarms() (list []api.Alarm) {
	const nearlyFull = 100 // a hundredth is left
	if st := s.counters.Stats(); st.Bytes > st.Bound-st.Bound/nearlyFull {
		list = append(list, api.Alarm{Code: "resp_counters_full", Message: fmt.Sprintf(
			"the counters of INCR and SET use %s of %s: new ones are refused until some expire; a quarter of --limit-memory is the bound",
			units.FormatSize(st.Bytes), units.FormatSize(st.Bound))})
	}
	return list
}
