package resp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/resp/counters"
	"github.com/weir-counter/weir/resp/scripts"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/conns"
)

// Server is the RESP door of a service. Create it with New; a Server runs once.
type Server struct {
	service  *service.Service
	cfg      Config // defaults applied, valid
	log      *slog.Logger
	commands *commands
	scripts  scripts.Table
	counters *counters.Table
	clock    clock

	address  conns.Address
	stopping atomic.Bool
	accepted atomic.Uint64

	mu       sync.Mutex // guards sessions
	sessions map[*session]struct{}
	running  sync.WaitGroup // of them
}

// New returns a Server for of that does not listen yet. It fails with a *weir.Error of
// CodeInvalidConfig that names the field at fault.
func New(of *service.Service, cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Server{
		service: of, cfg: cfg, log: cfg.Logger, commands: newCommands(), scripts: scripts.NewTable(), counters: counters.New(cfg.CounterMemory), clock: newClock(),
		sessions: map[*session]struct{}{},
	}, nil
}

// Listen opens Config.Addr. Clients that connect wait until Run. After TakeOver, and a second time, it does nothing.
func (s *Server) Listen() error { return s.address.Listen(s.cfg.Addr, s.cfg.MaxConns) }

// Addr returns the address listened on, host:port, once Listen succeeded; it is "" before.
func (s *Server) Addr() string { return s.address.Addr() }

// Close closes the address of a Server that does not run. Otherwise it does nothing.
func (s *Server) Close() error { return s.address.Close() }

// Run serves until ctx is done and then stops: requests that were received are answered, within
// StopTimeout, and connections close. It returns nil after a clean stop. It calls Listen when
// the caller has not.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	l := s.address.Listener()
	s.log.Info("serving RESP", "addr", s.Addr())
	if service.OpenToOthers(s.Addr()) && !s.service.Locked() {
		s.log.Warn("other machines can reach the RESP address, and there is no tokens file: anybody who reaches it can read, hit and delete", "addr", s.Addr())
	}
	alive, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	failed := make(chan error, 1)
	go func() { failed <- s.accept(alive, l) }()
	select {
	case err := <-failed:
		s.stop(l)
		return fmt.Errorf("serve RESP on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	if s.cfg.DrainDelay > 0 {
		<-time.After(s.cfg.DrainDelay)
	}
	s.stop(l)
	if err := <-failed; err != nil && !errors.Is(err, net.ErrClosed) {
		s.log.Warn("could not accept RESP connections", "error", err)
	}
	drained := make(chan struct{})
	go func() {
		s.running.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		return nil
	case <-time.After(s.cfg.StopTimeout):
	}
	cut()
	n := s.closeAll()
	<-drained
	return fmt.Errorf("stop: %d RESP connections were cut off after %v", n, s.cfg.StopTimeout)
}

// accept gives each connection its goroutine, until the listener closes.
func (s *Server) accept(alive context.Context, l net.Listener) error {
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
		case s.stopping.Load() || errors.Is(err, net.ErrClosed):
			return err
		default: // descriptors are used up, or the client left: the next one may do better
			s.log.Warn("could not accept a RESP connection", "error", err)
			select {
			case <-alive.Done():
			case <-time.After(conns.AcceptPause):
			}
			continue
		}
		s.accepted.Add(1)
		session := newSession(alive, s, c.(*conns.Conn), s.accepted.Load())
		s.mu.Lock()
		s.sessions[session] = struct{}{}
		s.mu.Unlock()
		s.running.Go(func() {
			defer s.forget(session)
			session.serve()
		})
	}
}

func (s *Server) forget(of *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, of)
}

// stop ends the wait of all connections for their clients.
func (s *Server) stop(l net.Listener) {
	s.stopping.Store(true)
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		s.log.Warn("could not close the RESP address", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for session := range s.sessions {
		session.wake()
	}
}

func (s *Server) closeAll() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session := range s.sessions {
		_ = session.conn.Close() // its goroutine ends by that
	}
	return len(s.sessions)
}
