package resp

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

func (s *session) ping(args [][]byte) error {
	switch len(args) {
	case 1:
		s.out.Status("PONG")
	case 2:
		s.out.BulkBytes(args[1])
	default:
		return ErrSyntax
	}
	return nil
}

func (s *session) echo(args [][]byte) error {
	s.out.BulkBytes(args[1])
	return nil
}

// spokenVersion is the version of Redis whose protocol and commands the listener follows. Clients adapt to it.
const spokenVersion = "7.2.0"

// hello is HELLO. If a part of it is refused, nothing changes.
func (s *session) hello(args [][]byte) error {
	version, name := s.version(), s.name
	rest := args[1:]
	if len(rest) > 0 {
		n, err := strconv.Atoi(string(rest[0]))
		if err != nil || n < 2 || n > 3 {
			return NewReplyError("NOPROTO", "unsupported protocol version: it must be 2 or 3")
		}
		version, rest = n, rest[1:]
	}
	for len(rest) > 0 {
		switch {
		case ArgumentIs(rest[0], "AUTH") && len(rest) > 2:
			if err := s.login(string(rest[1]), string(rest[2])); err != nil {
				return err
			}
			rest = rest[3:]
		case ArgumentIs(rest[0], "SETNAME") && len(rest) > 1:
			if err := checkName(rest[1]); err != nil {
				return err
			}
			name, rest = string(rest[1]), rest[2:]
		default:
			return ErrSyntax
		}
	}
	if err := s.server.service.Identify(s.caller); err != nil {
		return err
	}
	s.name = name
	s.out.SetVersion(version)
	s.out.Map(7)
	s.out.Values("server", "weir", "version", spokenVersion, "proto", version, "id", int(s.id), "mode", "standalone", "role", "master", "modules", []string{})
	return nil
}

func (s *session) selectDB(args [][]byte) error {
	n, err := ArgumentInt(args[1])
	if err != nil {
		return NewReplyError("ERR", "invalid DB index")
	}
	if s.elsewhere = n != 0; s.elsewhere {
		return errNoDatabase
	}
	return s.ok()
}

// errNoDatabase refuses SELECT of a database other than 0, and the commands after it. Clients such as ioredis send
// commands although SELECT was refused; their data for another database must not get mixed with database 0.
var errNoDatabase = NewReplyError("ERR", "DB index is out of range: there is one database, 0. SELECT 0 goes back to it")

const longestClientName = 64

func checkName(name []byte) error {
	if len(name) > longestClientName {
		return NewReplyError("ERR", "names of clients have at most 64 bytes")
	}
	for _, c := range name {
		if c <= ' ' || c > '~' {
			return NewReplyError("ERR", "Client names cannot contain spaces, newlines or special characters.")
		}
	}
	return nil
}

func (s *session) client(args [][]byte) error {
	sub, rest := args[1], args[2:]
	switch {
	case ArgumentIs(sub, "ID") && len(rest) == 0:
		s.out.Uint(s.id)
	case ArgumentIs(sub, "GETNAME") && len(rest) == 0:
		s.out.OptionalBulk(s.name)
	case ArgumentIs(sub, "INFO") && len(rest) == 0:
		s.out.Bulk(s.describe())
	case ArgumentIs(sub, "SETNAME") && len(rest) == 1:
		if err := checkName(rest[0]); err != nil {
			return err
		}
		s.name = string(rest[0])
		s.out.Status("OK")
	case ArgumentIs(sub, "SETINFO") && len(rest) == 2:
		return s.setInfo(rest[0], rest[1])
	case (ArgumentIs(sub, "NO-EVICT") || ArgumentIs(sub, "NO-TOUCH")) && len(rest) == 1 && (ArgumentIs(rest[0], "ON") || ArgumentIs(rest[0], "OFF")):
		s.out.Status("OK") // connected clients never cause an eviction
	case ArgumentIs(sub, "TRACKING") && len(rest) > 0:
		return s.track(rest)
	case ArgumentIs(sub, "CACHING") && len(rest) == 1 && ArgumentIs(rest[0], "YES"):
		s.caching = true
		return errNoTracking
	default:
		return NewReplyError("ERR", "unknown subcommand or wrong number of arguments for '"+strings.ToLower(ClipArgument(sub))+"': write CLIENT ID, INFO, GETNAME, SETNAME, SETINFO, NO-EVICT, NO-TOUCH or TRACKING")
	}
	return nil
}

// errNoTracking refuses commands that ask Weir to notify the client when keys change.
var errNoTracking = NewReplyError("ERR", "Weir tells no client when a counter changes, so that no client may cache one: ask without a cache (rueidis: Do in place of DoCache)")

// track is CLIENT TRACKING. Clients such as rueidis send it with OPTIN as they connect. Then nothing is tracked before
// CLIENT CACHING YES, which is refused. Without OPTIN all keys would be tracked, so it is refused at once.
func (s *session) track(args [][]byte) error {
	switch {
	case ArgumentIs(args[0], "OFF") && len(args) == 1, ArgumentIs(args[0], "ON") && len(args) == 2 && ArgumentIs(args[1], "OPTIN"):
		return s.ok()
	case ArgumentIs(args[0], "ON"):
		return errNoTracking
	}
	return ErrSyntax
}

func (s *session) setInfo(what, text []byte) error {
	if err := checkName(text); err != nil {
		return err
	}
	switch {
	case ArgumentIs(what, "LIB-NAME"):
		s.library = string(text)
	case ArgumentIs(what, "LIB-VER"):
		s.libraryVersion = string(text)
	default:
		return NewReplyError("ERR", "Unrecognized option '"+ClipArgument(what)+"'")
	}
	return s.ok()
}

// version is 2 or 3.
func (s *session) version() int {
	if s.out.V3() {
		return 3
	}
	return 2
}

func (s *session) describe() string {
	return fmt.Sprintf("id=%d addr=%s laddr=%s name=%s age=%d db=0 resp=%d lib-name=%s lib-ver=%s\n",
		s.id, s.conn.RemoteAddr(), s.conn.LocalAddr(), s.name, int64(time.Since(s.since).Seconds()), s.version(), s.library, s.libraryVersion)
}

func (s *session) reset(args [][]byte) error {
	if len(args) > 1 {
		return s.resetLimits(args[1:])
	}
	s.dropTransaction()
	s.out.SetVersion(2)
	s.name, s.elsewhere, s.caching = "", false, false
	s.become(s.peer)
	s.out.Status("RESET")
	return nil
}

func (s *session) leave([][]byte) error {
	s.quit = true
	return s.ok()
}

// receiver and sender are a session's connection, with deadlines. A deadline is set again only after a good part of its
// time has passed: setting one costs as much as a command.
type (
	receiver struct{ *session }
	sender   struct{ *session }
)

// Read implements io.Reader.
func (r receiver) Read(b []byte) (int, error) {
	s := r.session
	now := time.Now()
	within := s.server.cfg.IdleTimeout
	partial := s.in.Partial()
	if partial {
		within = s.server.cfg.RequestTimeout
	}
	begins := partial && s.answered // another request is under way than before
	if begins || partial != s.partial || !partial && s.readBy.Sub(now) < within-within/8 {
		s.partial, s.answered, s.readBy = partial, false, now.Add(within)
		if err := s.conn.SetReadDeadline(s.readBy); err != nil {
			return 0, err
		}
		if s.server.stopping.Load() { // Wake was called before
			s.conn.Wake()
		}
	}
	s.conn.Waits(true)
	n, err := s.stream.Read(b)
	s.conn.Waits(false)
	return n, err
}

// Write implements io.Writer.
func (w sender) Write(b []byte) (int, error) {
	s := w.session
	s.leaveHits()
	now, within := time.Now(), s.server.cfg.RequestTimeout
	if s.writeBy.Sub(now) < within/2 {
		s.writeBy = now.Add(within)
		if err := s.conn.SetWriteDeadline(s.writeBy); err != nil {
			return 0, err
		}
	}
	s.conn.Waits(true)
	n, err := s.stream.Write(b)
	s.conn.Waits(false)
	return n, err
}
