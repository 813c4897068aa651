package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine/counters"
	"github.com/weir-counter/weir/internal/server/listener"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

// session is one connection. It belongs to its goroutine.
type session struct {
	ctx    context.Context // ends when the server cuts connections off
	server *Server
	conn   *listener.Conn
	stream net.Conn // of conn, or TLS on it
	in     *Reader
	out    *Writer
	peer   access.Caller // by address, or by the certificate of the connection
	caller access.Caller // peer, or the identity that the client has proved
	id     uint64
	since  time.Time

	name, library, libraryVersion string // as the client says

	// For the requests that arrived together:
	second  time.Time // of hits without a time
	arrived time.Time // when they did
	hits    bool      // a place of Pools.Hits is taken
	asks    bool      // a place of Pools.Questions is taken

	tally     ingest.Tally
	counters  counters.View
	millis    int64 // now, by the listener's clock of counters, in milliseconds
	allowing  allowing
	query     queries.CountQuery
	counting  queries.Counting
	far       bool         // it runs what other sessions send to the owner of counters, which have checked it
	request   []byte       // of commands for the owner
	waiting   int          // how many commands that is
	multi     *transaction // nil: outside of one
	deleted   *deletion    // the part of the running DEL that was done before; nil: none
	quit      bool
	elsewhere bool // it has selected a database that does not exist
	caching   bool // it has announced to cache the reply of the next command or transaction

	ran      *command // the command of the last requests
	ranTimes uint64   // requests of ran that are not counted yet

	readBy, writeBy time.Time // deadlines that are set
	partial         bool      // readBy is the deadline of a request under way
	answered        bool      // a whole request was read after readBy was set
}

func newSession(ctx context.Context, server *Server, c *listener.Conn, id uint64) *session {
	peer := c.Client()
	s := &session{ctx: ctx, server: server, conn: c, peer: peer, caller: peer, id: id, since: time.Now()}
	s.stream = c.Conn
	if server.cfg.TLS != nil {
		s.stream = tls.Server(c.Conn, server.cfg.TLS)
	}
	s.in = NewReader(receiver{s}, protocolLimits, s.reserve)
	s.out = NewWriter(sender{s})
	s.counters = server.counters.View()
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

// settle gives back what must not be held while the session waits for its client.
func (s *session) settle() {
	s.deliver()
	s.leaveHits()
	if s.asks {
		s.asks = false
		s.server.service.Pools.Questions.Leave(s.caller, 1)
	}
	if s.ran != nil {
		s.ran.calls.Add(s.ranTimes)
		s.ran.took(s.server.clock().Sub(s.arrived), "")
		s.ran, s.ranTimes = nil, 0
	}
}

// leaveHits gives back the place of hits. One client may use all of these places, so none is held while the session
// waits for its client.
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
	s.second, s.arrived = s.server.service.Now(), s.server.clock()
	s.millis = s.arrived.UnixMilli()
	return nil
}

// end tells the client why its connection closes, if it may still read that.
func (s *session) end(err error) {
	if fault, ok := errors.AsType[*ProtocolError](err); ok {
		err = NewReplyError("ERR", fault.Error())
	} else if _, ok := errors.AsType[*api.Error](err); !ok {
		return // it left, or said nothing for too long
	}
	s.fail(err)
	_ = s.out.Flush()
}

// allowing is the memory for decisions.
type allowing struct {
	requests []admit.Request
	decision admit.Decision
	inline   admit.Limit
	costs    []admit.Cost
}

// permit fails unless the session may run a command on the keys that it names. A client must have proved an identity,
// except for the commands that prove one.
func (s *session) permit(c *command, args [][]byte) error {
	if s.elsewhere && c.flags.has(onData) {
		return errNoDatabase
	}
	svc := s.server.service
	if !svc.Locked() || c.flags.has(public) && (len(args) == 1 || len(c.need.Roles) == 0) {
		return nil
	}
	if keys := c.keys(args); len(keys) > 0 {
		return svc.Permit(s.caller, c.need, ArgumentView(keys[0]))
	}
	return svc.Permit(s.caller, c.need)
}

// enterCounters checks a command on counters. For other commands the service checks.
func (s *session) enterCounters(c *command, args [][]byte) error {
	if !c.flags.has(counter) && !c.flags.has(onAll) {
		return nil
	}
	if s.server.service.Locked() && !s.far {
		keys := c.keys(args)
		if c.flags.has(onAll) {
			keys = [][]byte{nil}
		}
		return s.permitCounters(keys)
	}
	return nil
}

// keys are the arguments from a command's first key to its last, as far as they were sent.
func (c *command) keys(args [][]byte) [][]byte {
	places := c.places
	if places.last < 0 {
		places.last += len(args)
	}
	if places.first == 0 || places.first >= len(args) || places.last < places.first {
		return nil
	}
	return args[places.first:min(places.last+1, len(args))]
}

// auth is AUTH: the password is a token, the user is "default" or the identity's name.
func (s *session) auth(args [][]byte) error {
	user, password := "", args[len(args)-1]
	switch len(args) {
	case 2:
	case 3:
		user = string(args[1])
	default:
		return ErrSyntax
	}
	if err := s.login(user, string(password)); err != nil {
		return err
	}
	return s.ok()
}

// login gives the session the identity of a user that the client proves to be. If it fails, the identity does not
// change.
func (s *session) login(user, password string) error {
	if !s.server.service.Locked() {
		return errNoAuth
	}
	is, err := s.server.service.WithPassword(s.peer, user, password)
	if err != nil {
		return NewReplyError("WRONGPASS", err.Error())
	}
	s.become(is)
	return nil
}

// become changes the identity, after giving back what the session holds under the old one.
func (s *session) become(c access.Caller) {
	s.settle()
	s.caller = c
}

// handshake begins TLS, within the time of a request, and takes the identity that a certificate
// proves. A certificate of nobody's is no failure: AUTH may follow.
func (s *session) handshake() error {
	secure, ok := s.stream.(*tls.Conn)
	if !ok {
		return nil
	}
	if err := s.conn.SetDeadline(time.Now().Add(s.server.cfg.RequestTimeout)); err != nil {
		return err
	}
	if err := secure.HandshakeContext(context.Background()); err != nil {
		return err // any stranger can cause it at will: not for the log
	}
	if err := s.conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if s.server.stopping.Load() { // wake came before
		s.conn.Wake()
	}
	if is, err := s.server.service.WithCertificate(s.peer, secure.ConnectionState().VerifiedChains); err == nil {
		s.peer, s.caller = is, is
	}
	return nil
}

// kinds maps errors of the service that clients should distinguish to their kinds; all others are ERR. TRYAGAIN says
// that the request may be sent again, as clients such as go-redis do by themselves.
var kinds = map[api.Code]string{
	api.CodeOwnerUnreachable: "TRYAGAIN",

	api.CodeOverloaded: "TRYAGAIN",
	api.CodeStarting:   "LOADING",
	api.CodeStopping:   "LOADING",
	api.CodeClosed:     "LOADING",

	api.CodeUnauthorized: "NOAUTH",
	api.CodeForbidden:    "NOPERM",
	api.CodeCeiling:      "TRYAGAIN",
}

var errNoAuth = NewReplyError("ERR", "AUTH is not taken: this server was started without --tokens; leave user and password out")

// fail writes why a request failed.
func (s *session) fail(err error) {
	own, ok := errors.AsType[*ReplyError](err)
	if !ok {
		e := request.As(err)
		own = NewReplyError("ERR", string(e.Code)+": "+e.Message)
		if kind := kinds[e.Code]; kind != "" {
			own.Kind = kind
		}
		if e.Code == api.CodeUnauthorized && !s.caller.Known() {
			own.Text += ": send AUTH NAME TOKEN; 'weir token create' makes one"
		}
		if e.Code == api.CodeUnauthorized && s.caller.Known() && s.caller == s.peer {
			s.quit = true // its certificate proves nothing any more: a new connection shows a renewed one
		}
	}
	s.deliver()
	s.server.commands.failed.Add(1)
	s.out.Error(own.Kind, own.Text)
}
