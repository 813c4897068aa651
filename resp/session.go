package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/counting"
	"github.com/weir-counter/weir/resp/protocol"
	"github.com/weir-counter/weir/resp/scripts"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/conns"
)

// session is one connection. It belongs to its goroutine, but for wake.
type session struct {
	ctx    context.Context // ends when the server cuts connections off
	server *Server
	conn   *conns.Conn
	stream net.Conn // of conn, or TLS on it
	in     *protocol.Reader
	out    *protocol.Writer
	peer   service.Caller // by address alone
	caller service.Caller // peer, or who it has proved to be
	id     uint64
	since  time.Time

	name, library, libraryVersion string // as the client says

	// Of the requests that came together:
	second time.Time // of hits without a time
	hits   bool      // a place of Pools.Hits is taken
	asks   bool      // a place of Pools.Questions is taken

	tally     service.Tally
	counters  counting.Session
	scripting scripts.Session
	allowing  allowing
	query     service.CountQuery
	counting  service.Counting
	multi     *transaction // nil: outside of one
	quit      bool

	ran      *command // the command of the last requests
	ranTimes uint64   // how many they were, and are not counted yet

	readBy, writeBy time.Time // deadlines that are set
	partial         bool      // readBy is that of a request under way,
	answered        bool      // and there was a whole one after it was set
}

func newSession(ctx context.Context, of *Server, c *conns.Conn, id uint64) *session {
	peer := service.CallerAt(c.RemoteAddr().String())
	s := &session{ctx: ctx, server: of, conn: c, peer: peer, caller: peer, id: id, since: time.Now()}
	s.stream = c.Conn
	if of.cfg.TLS != nil {
		s.stream = tls.Server(c.Conn, of.cfg.TLS)
	}
	s.in = protocol.NewReader(receiver{s}, limits, s.reserve)
	s.out = protocol.NewWriter(sender{s})
	s.counters = counting.Session{Counters: of.counters.View(), Out: s.out}
	s.scripting = scripts.Session{Session: &s.counters, Door: s}
	return s
}

// reserve takes memory for large requests, or gives it back.
func (s *session) reserve(bytes int) error {
	pool := s.server.service.Pools.Buffered
	if bytes < 0 {
		pool.Leave(s.peer, int64(-bytes))
		return nil
	}
	return pool.Enter(s.peer, int64(bytes))
}

// serve answers until the client leaves or is to leave.
func (s *session) serve() {
	defer func() {
		s.settle()
		s.dropTransaction()
		s.in.Release()
		_ = s.conn.Close() // nobody is left to tell
	}()
	if err := s.handshake(); err != nil {
		return
	}
	for !s.quit {
		args, err := s.in.Next()
		if err == nil && args != nil {
			s.answered = true
			s.run(args)
			continue
		}
		s.settle()
		if s.out.Flush() != nil {
			return
		}
		if err == nil {
			err = s.receive()
		}
		if err != nil {
			s.end(err)
			return
		}
	}
	_ = s.out.Flush() // the client has left, or is about to
}

// settle gives back what is not to be held while the client is waited for.
func (s *session) settle() {
	s.leaveHits()
	if s.asks {
		s.asks = false
		s.server.service.Pools.Questions.Leave(s.caller, 1)
	}
	if s.ran != nil {
		s.ran.calls.Add(s.ranTimes)
		s.ran, s.ranTimes = nil, 0
	}
}

// leaveHits gives back the place of hits, which one client may have all of: so it must not wait for a
// client.
func (s *session) leaveHits() {
	if s.hits {
		s.hits = false
		s.server.service.Pools.Hits.Leave(s.caller, 1)
	}
}

// receive waits for the client to send more.
func (s *session) receive() error {
	if err := s.in.Fill(); err != nil {
		return err
	}
	s.second, s.counters.Millis = s.server.service.Now(), s.server.clock()
	return nil
}

// end tells the client why its connection closes, if it may still read that.
func (s *session) end(err error) {
	var fault *protocol.Error
	var refused *service.Error
	switch {
	case errors.As(err, &fault):
		s.fail(argument.Fail("ERR", fault.Error()))
	case errors.As(err, &refused):
		s.fail(refused)
	default:
		return // it left, or said nothing for too long
	}
	_ = s.out.Flush()
}

// allowing is the memory of decisions.
type allowing struct {
	requests []admit.Request
	decision admit.Decision
	inline   admit.Limit
	costs    []admit.Cost
}
