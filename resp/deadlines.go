package resp

import "time"

// receiver and sender are a session's connection, with deadlines. Deadlines are set again only
// once a good part of their time has passed: setting one costs as much as a command.
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
	begins := partial && s.answered // the request under way is another one than before
	if begins || partial != s.partial || !partial && s.readBy.Sub(now) < within-within/8 {
		s.partial, s.answered, s.readBy = partial, false, now.Add(within)
		if err := s.conn.SetReadDeadline(s.readBy); err != nil {
			return 0, err
		}
		if s.server.stopping.Load() { // wake came before
			s.wake()
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

// wake ends the wait for the client, now and from now on.
func (s *session) wake() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) } // a closed one is awake
