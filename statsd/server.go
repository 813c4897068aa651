package statsd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/conns"
)

// Server is the StatsD door of a service. Create it with New; a Server runs once.
type Server struct {
	service  *service.Service
	caller   service.Caller // of all hits
	cfg      Config         // defaults applied, valid
	log      *slog.Logger
	template template

	streams   atomic.Uint64 // of random numbers, so far
	counters  atomic.Uint64 // lines that were counted
	datagrams atomic.Uint64
	refused   refusals
	drops     drops
	ending    chan struct{} // closed by stop

	mu       sync.Mutex // guards all below
	listener *conns.Listener
	packets  *net.UDPConn
	open     map[*conns.Conn]struct{}
	running  sync.WaitGroup // of connections
}

// New returns a Server for of that does not listen yet. It fails with a *weir.Error of CodeInvalidConfig that names
// the field at fault, or with a *service.Error when the tokens file has no such identity.
func New(of *service.Service, cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	caller, err := of.WithName(service.Caller{}, cfg.Identity)
	if err != nil {
		return nil, fmt.Errorf("the identity %q of StatsD (--statsd-identity): %w", cfg.Identity, err)
	}
	t, err := parseTemplate(cfg.Key)
	if err != nil {
		return nil, err
	}
	for cfg.Seed == 0 {
		cfg.Seed = rand.Uint64() //nolint:gosec // it rounds, and hides nothing
	}
	return &Server{
		service: of, caller: caller, cfg: cfg, log: cfg.Logger, template: t,
		refused: refusals{log: cfg.Logger}, open: map[*conns.Conn]struct{}{}, ending: make(chan struct{}),
	}, nil
}

// Listen opens Config.Addr, by TCP and by UDP. What is sent waits until Run. After TakeOver, and a second time, it does nothing.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return nil
	}
	of, err := listen(s.cfg)
	if err != nil {
		return err
	}
	s.use(of)
	return nil
}

// Addr returns the address listened on, host:port, once Listen succeeded; it is "" before.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Close closes the address of a Server that does not run. Otherwise it does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	var err error
	for _, closing := range []func() error{s.listener.Close, s.packets.Close} {
		if e := closing(); !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Run counts until ctx is done and then stops: datagrams that the kernel has are counted, and connections
// close. It returns nil after a clean stop. It calls Listen when the caller has not.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	s.log.Info("serving StatsD", "addr", s.Addr(), "key", s.cfg.Key, "identity", s.cfg.Identity)
	if service.OpenToOthers(s.Addr()) {
		s.log.Warn("other machines can reach the StatsD address, and StatsD does not say who sends: anybody who reaches it can send hits", "addr", s.Addr(), "identity", s.cfg.Identity)
	}
	failed := make(chan error, 2)
	go func() { failed <- s.receive() }()
	go func() { failed <- s.accept() }()
	var err error
	left := 2
	select {
	case err = <-failed:
		left--
	case <-ctx.Done():
	}
	s.stop()
	for ; left > 0; left-- {
		err = errors.Join(err, <-failed)
	}
	s.running.Wait()
	if err = errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("serve StatsD on %s: %w", s.cfg.Addr, err)
	}
	return nil
}

// drain is how long a server that stops reads datagrams that the kernel has: it has them at once.
const drain = 100 * time.Millisecond

// stop ends the waits for senders.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ending)
	_ = s.packets.SetReadDeadline(time.Now().Add(drain)) // a closed one does not wait
	_ = s.listener.Close()                               // nobody is left to tell
	for c := range s.open {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // a closed one is awake
	}
}

func (s *Server) stopping() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// pause is before the next try of what failed for a reason that may pass.
func (s *Server) pause() {
	select {
	case <-s.ending:
	case <-time.After(10 * time.Millisecond):
	}
}
