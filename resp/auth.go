package resp

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/service"
)

// permit fails unless the session may run a command: who it is must be known, but for the commands
// by which it says so, and counters must be its own. What else a command needs, the service checks.
func (s *session) permit(c *command, args [][]byte) error {
	of := s.server.service
	if !of.Locked() || c.flags.has(public) {
		return nil
	}
	if !c.flags.has(counter) {
		return of.Identify(s.caller)
	}
	last := c.last
	if last < 0 {
		last += len(args)
	}
	return of.PermitCounters(s.caller, args[c.first:last+1])
}

// auth is AUTH: the password is a token, the user is "default" or the identity's name.
func (s *session) auth(args [][]byte) error {
	user, password := "", args[len(args)-1]
	switch len(args) {
	case 2:
	case 3:
		user = string(args[1])
	default:
		return argument.ErrSyntax
	}
	if err := s.login(user, string(password)); err != nil {
		return err
	}
	s.out.Status("OK")
	return nil
}

// login makes the session that of user, if the client proves to be it; else the session stays whose it was.
func (s *session) login(user, password string) error {
	if !s.server.service.Locked() {
		return errNoAuth
	}
	is, err := s.server.service.WithPassword(s.peer, user, password)
	if err != nil {
		return argument.Fail("WRONGPASS", err.Error())
	}
	s.become(is)
	return nil
}

// known is the error of HELLO for a client that has not authenticated; nil: it has, or need not.
func (s *session) known() error { return s.server.service.Identify(s.caller) }

// become gives back what the session has taken as who it was.
func (s *session) become(c service.Caller) {
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
		return err // of a stranger's making, as often as they like: not for the log
	}
	if err := s.conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if s.server.stopping.Load() { // wake came before
		s.wake()
	}
	if chains := secure.ConnectionState().VerifiedChains; len(chains) > 0 {
		if is, err := s.server.service.WithCertificate(s.peer, chains[0][0]); err == nil {
			s.peer, s.caller = is, is
		}
	}
	return nil
}
