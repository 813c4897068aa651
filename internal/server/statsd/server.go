// Package statsd is the listener for StatsD, over UDP and TCP at one address: counters become hits.
//
//	name:value[:value...]|c[|@rate][|#tag:value,...][|Ttime]
//
// The way of a line: server.go receives it, line.go splits it and makes a number and a key of it. Then the service counts the
// hit. A line that is not counted is noted with its reason, since a sender by UDP gets no answer.
//
// A sampled counter stands for value / rate hits. Hits are whole numbers, so the rest is rounded up or down at
// random, with the chance that makes the mean true.
//
// Invariants. Neither protocol proves who sends: all hits belong to one identity (Config.Identity), or the server has no
// tokens. One goroutine reads UDP, and each connection has one; a receiver's memory does not grow.
package statsd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/settings"
)

// Server is the StatsD listener of a service. Create it with New; a Server runs once.
type Server struct {
	service  *service.Service
	caller   access.Caller // of all hits
	cfg      Config        // defaults applied, valid
	log      *slog.Logger
	template template

	streams   atomic.Uint64 // of random numbers, so far
	counters  atomic.Uint64 // lines that were counted
	datagrams atomic.Uint64
	refused   refusals
	drops     drops
	ending    context.Context
	end       context.CancelFunc // of ending, by stop
	serving   listener.Serving

	packets          *net.UDPConn // there before the Address
	listener.Address              // of TCP
}

// New returns a Server for svc that does not listen yet. It fails with a *engine.Error of CodeInvalidConfig that names
// the field at fault, or with a *service.Error when the tokens file has no such identity.
func New(svc *service.Service, cfg Config) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	caller, err := svc.WithName(access.Caller{}, cfg.Identity)
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
	s := &Server{service: svc, caller: caller, cfg: cfg, log: cfg.Logger, template: t, refused: refusals{cfg.Logger, make([]refusal, len(reasons))}}
	s.ending, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Listen opens Config.Addr, by TCP and by UDP. What is sent waits until Run. After TakeOver, and a second time, it does nothing.
func (s *Server) Listen() error {
	if s.Listener() != nil {
		return nil
	}
	opened, err := listen(s.cfg)
	if err != nil {
		return err
	}
	s.use(opened)
	return nil
}

// Close closes the address of a Server that does not run. Otherwise it does nothing.
func (s *Server) Close() error {
	if s.Listener() == nil {
		return nil
	}
	err := s.packets.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(s.Address.Close(), err)
}

// Run counts until ctx is done and then stops: datagrams that the kernel has are counted, and connections
// close. It returns nil after a clean stop. It calls Listen when the caller has not.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	s.log.Info("serving StatsD", "addr", s.Addr(), "key", s.cfg.Key, "identity", s.cfg.Identity)
	if access.OpenToOthers(s.Addr()) {
		s.log.Warn("other machines can reach the StatsD address, and StatsD does not say who sends: anybody who reaches it can send hits", "addr", s.Addr(), "identity", s.cfg.Identity)
	}
	failed := make(chan error, 2)
	go func() { failed <- s.receive() }()
	go func() { failed <- s.serving.Accept(s.Listener(), s.log, s.follow) }()
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
	s.serving.Wait()
	if err = errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("serve StatsD on %s: %w", s.cfg.Addr, err)
	}
	return nil
}

// A server that stops still reads the datagrams that the kernel has, for at most drainMost while senders
// go on. None for drain means that there are no more.
const drain, drainMost = 100 * time.Millisecond, time.Second

// stop ends the waits for senders.
func (s *Server) stop() {
	s.end()
	_ = s.packets.SetReadDeadline(time.Unix(1, 0)) // receive goes on by deadlines of its own; a closed one does not wait
	s.serving.End((*listener.Conn).Wake)
	_ = s.Listener().Close() // it accepts nobody anymore
}

// Config is the settings of a Server. The zero value of each field stands for its default.
type Config struct {
	// Addr is the address to listen on by UDP and TCP, host:port; port 0 picks a free one. Default 127.0.0.1:8125.
	Addr string
	// Identity is the identity of the tokens file that all hits are of. "": none, on a server without tokens.
	Identity string
	// Key is the template of keys: text, {name}, {tag:NAME} for a tag's value or -, and {tags} for all tags in
	// order. Default {name}. It has {name}.
	Key string

	// MaxLineBytes bounds a line. Default 8 KiB, 64 B to 64 KiB.
	MaxLineBytes int
	// MaxConns bounds open connections of TCP. One more takes the place of the one that is silent longest, of
	// the address with most. Default 1024, 1 to 1,000,000.
	MaxConns int
	// ReadBuffer is the size of the kernel's buffer of datagrams that wait, in bytes. The kernel may have less
	// (net.core.rmem_max). Default 4 MiB, 4 KiB to 1 GiB.
	ReadBuffer int
	// IdleTimeout is how long a connection may be silent. Default 1 h, 1 s to 24 h.
	IdleTimeout time.Duration
	// Seed is the seed of the random numbers that round sampled counters. 0: a new one at each start.
	Seed uint64

	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
}

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c Config) WithDefaults() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:8125")
	c.Key = cmp.Or(c.Key, "{name}")
	c.MaxLineBytes = cmp.Or(c.MaxLineBytes, 8<<10)
	c.MaxConns = cmp.Or(c.MaxConns, 1024)
	c.ReadBuffer = cmp.Or(c.ReadBuffer, 4<<20)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, time.Hour)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Validate returns a *engine.Error of CodeInvalidConfig that names the first field outside what it may be. New
// does the same.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if err := settings.CheckAddr(c.Addr); err != nil {
		return err
	}
	if _, err := parseTemplate(c.Key); err != nil {
		return settings.Invalid("Key", "the template of keys "+err.Error())
	}
	if bad := request.CheckHitKey(c.Key); bad != nil && bad.Code == api.CodeReservedKey {
		return settings.Invalid("Key", fmt.Sprintf("the template of keys %q: no key begins with limit: but those that limits count, so no line would be counted: write another", c.Key))
	}
	if len(c.Key) > engine.MaxKeyBytes {
		return settings.Invalid("Key", "the template of keys is longer than a key may be")
	}
	if err := settings.CheckNumbers(
		settings.Number{Field: "MaxLineBytes", Value: int64(c.MaxLineBytes), Low: 64, High: maxDatagram},
		settings.Number{Field: "MaxConns", Value: int64(c.MaxConns), Low: 1, High: 1_000_000},
		settings.Number{Field: "ReadBuffer", Value: int64(c.ReadBuffer), Low: 4 << 10, High: 1 << 30},
	); err != nil {
		return err
	}
	return settings.CheckDurations(settings.Duration{Field: "IdleTimeout", Value: c.IdleTimeout, Low: time.Second, High: 24 * time.Hour})
}

// Opening is the address of a Server that does not run yet, because its journal is read or its node joins others.
// The kernel keeps what is sent to it, as far as its buffers allow. The Server that takes the address over
// counts that (Server.TakeOver).
type Opening struct {
	sockets atomic.Pointer[sockets] // nil: closed, or taken over
}

// sockets are one address, by TCP and by UDP.
type sockets struct {
	listener net.Listener
	packets  *net.UDPConn
}

// Open listens on cfg.Addr, so that an address in use shows before any long work. Close it if no Server takes it over.
func Open(cfg Config) (*Opening, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	opened, err := listen(cfg)
	if err != nil {
		return nil, err
	}
	o := new(Opening)
	o.sockets.Store(opened)
	return o, nil
}

// listen opens Config.Addr, with the buffer of Config.
func listen(cfg Config) (*sockets, error) {
	const tries = 20 // of a port that the system picks: it may be in use by UDP
	for try := 1; ; try++ {
		opened, err := listenOn(cfg.Addr)
		_, port, _ := net.SplitHostPort(cfg.Addr)
		switch {
		case err == nil:
			if err := opened.packets.SetReadBuffer(cfg.ReadBuffer); err != nil {
				cfg.Logger.Warn("could not enlarge the buffer of StatsD datagrams", "error", err)
			}
			return opened, nil
		case port != "0" || !errors.Is(err, syscall.EADDRINUSE) || try == tries:
			return nil, err
		}
	}
}

// listenOn opens an address by TCP, and the same one by UDP.
func listenOn(addr string) (*sockets, error) {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	packets, err := config.ListenPacket(context.Background(), "udp", l.Addr().String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s by UDP: %w", l.Addr(), err), l.Close())
	}
	return &sockets{l, packets.(*net.UDPConn)}, nil
}

// Addr is the address listened on, host:port; "" after Close, or when a Server has taken it over.
func (o *Opening) Addr() string {
	if opened := o.sockets.Load(); opened != nil {
		return opened.listener.Addr().String()
	}
	return ""
}

// Close lets the address go. After a Server has taken it over it does nothing.
func (o *Opening) Close() error {
	if opened := o.sockets.Swap(nil); opened != nil {
		return errors.Join(opened.listener.Close(), opened.packets.Close())
	}
	return nil
}

// TakeOver has the server count what is sent to an address where it is expected already, in place of Config.Addr.
func (s *Server) TakeOver(o *Opening) {
	if opened := o.sockets.Swap(nil); opened != nil {
		s.use(opened)
	}
}

// use has the server count what the sockets get.
func (s *Server) use(opened *sockets) {
	s.packets = opened.packets
	s.Use(listener.ConnLimit(opened.listener, s.cfg.MaxConns))
	s.drops.watch(opened.packets)
}

// Figures implements service.Listener.
func (s *Server) Figures() access.ListenerFigures {
	f := access.ListenerFigures{
		Name: "statsd", Failed: s.refused.total(),
		Requests: []access.ListenerRequests{{Kind: "counter", Count: s.counters.Load()}},
		Packets:  new(s.datagrams.Load()),
	}
	for _, why := range reasons {
		f.Rejected = append(f.Rejected, access.ListenerRequests{Kind: why.name, Count: s.refused.by[why.place].count.Load()})
	}
	if n, known := s.drops.read(); known {
		f.Dropped = &n
	}
	s.Connections(&f)
	return f
}

// droppedFor is how long after datagrams were dropped there is an alarm.
const droppedFor = time.Minute

// Alarms implements service.Listener.
func (s *Server) Alarms() (list []api.Alarm) {
	if since, n := s.drops.lately(time.Now()); since < droppedFor && n > 0 {
		list = append(list, api.Alarm{Code: "statsd_dropped", Message: fmt.Sprintf(
			"the kernel dropped %d StatsD datagrams in the last minute, whose hits are lost: they come faster than they are counted, or in bursts that its buffer does not hold; raise net.core.rmem_max, have senders pack lines or sample, or send by TCP", n)})
	}
	return list
}

// follow counts the lines of a connection until it ends or is silent for too long.
func (s *Server) follow(c *listener.Conn) {
	counting, buffer, have := newCounting(s), make([]byte, s.cfg.MaxLineBytes+1), 0
	skips := false // the rest of a line that was too long
	begins := true
	for {
		if err := c.SetReadDeadline(time.Now().Add(s.cfg.IdleTimeout)); err != nil || s.ending.Err() != nil {
			return
		}
		n, err := c.Read(buffer[have:])
		c.Waits(false)
		have += n
		whole := bytes.LastIndexByte(buffer[:have], '\n') + 1
		if whole > 0 || have == len(buffer) || err != nil {
			if begins && speaksHTTP(buffer[:have]) {
				s.log.Warn("a StatsD connection was closed: its client speaks HTTP, maybe for a web page that attacks this server", "remote", c.RemoteAddr().String())
				s.refused.add(malformed, 1, buffer[:have])
				return
			}
			begins = false
		}
		switch {
		case errors.Is(err, io.EOF):
			whole = have // the last line may lack its line end; a line that broke off does not count
		case whole == 0 && have == len(buffer):
			if !skips {
				s.refused.add(longLine, 1, buffer)
			}
			skips, have = true, 0
		}
		text := buffer[:whole]
		if skips && whole > 0 {
			_, text, _ = bytes.Cut(text, []byte{'\n'})
			skips = false
		}
		counting.count(text)
		have = copy(buffer, buffer[whole:have])
		c.Waits(true)
		if err != nil {
			return
		}
	}
}

// speaksHTTP reports whether what a connection begins with is a request of HTTP. A page in a browser can have
// one sent to any port, with lines of its own in the body.
func speaksHTTP(begin []byte) bool {
	method, rest, found := bytes.Cut(begin, []byte{' '})
	if !found || len(method) == 0 || len(bytes.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) > 0 {
		return false
	}
	line, _, whole := bytes.Cut(rest, []byte{'\n'})
	return !whole || bytes.HasSuffix(bytes.TrimRight(line, "\r"), []byte(" HTTP/1.1")) || bytes.HasSuffix(bytes.TrimRight(line, "\r"), []byte(" HTTP/1.0"))
}

// maxDatagram is more than a datagram of UDP has.
const maxDatagram = 64 << 10

// receive counts datagrams until the server stops.
func (s *Server) receive() error {
	c, buffer := newCounting(s), make([]byte, maxDatagram)
	var end time.Time // of the datagrams that the kernel has when the server stops
	for {
		if !end.IsZero() {
			// Set right before the read: a deadline that passed before it hides what the kernel has.
			_ = s.packets.SetReadDeadline(time.Now().Add(drain))
		}
		n, _, err := s.packets.ReadFromUDPAddrPort(buffer)
		switch {
		case err == nil:
			s.datagrams.Add(1)
			c.count(buffer[:n])
			if !end.IsZero() && time.Now().After(end) {
				return nil
			}
		case errors.Is(err, os.ErrDeadlineExceeded) && end.IsZero():
			end = time.Now().Add(drainMost)
		case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed):
			return nil
		default: // it concerns one datagram: go on with the next one
			s.log.Warn("could not receive a StatsD datagram", "error", err)
			_ = concurrency.Sleep(s.ending, 10*time.Millisecond) // the loop looks whether it ends
		}
	}
}

// drops tells how many datagrams the kernel has dropped because its buffer was full.
type drops struct {
	mu     sync.Mutex // guards all below
	socket uint64     // inode; 0: not known
	most   uint64     // that were read
	seen   uint64     // at grew
	grew   time.Time  // when more were found
}

// watch begins with a socket.
func (d *drops) watch(socket *net.UDPConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.socket = socketOf(socket)
}

// read is how many were dropped so far; false: the system does not tell.
func (d *drops) read() (n uint64, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.look(time.Now())
}

func (d *drops) look(now time.Time) (n uint64, known bool) {
	if d.socket == 0 {
		return 0, false
	}
	n, known = droppedBy(d.socket)
	if !known {
		return d.most, d.most > 0 // the socket is closed
	}
	if n > d.most {
		if now.Sub(d.grew) > droppedFor {
			d.seen = d.most
		}
		d.most, d.grew = n, now
	}
	return d.most, true
}

// lately is how long ago datagrams were found dropped, and how many in that minute.
func (d *drops) lately(now time.Time) (since time.Duration, n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.look(now)
	return now.Sub(d.grew), d.most - d.seen
}
