package resp

import (
	"time"

	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/service"
)

// refund is REFUND: the reply is by how many more may pass.
func (s *session) refund(args [][]byte) error {
	var taken time.Time
	if n := len(args); n > 3 && argument.Is(args[n-2], "TAKEN") {
		var err error
		if taken, err = service.ParseTime("taken", string(args[n-1])); err != nil {
			return err
		}
		args = args[:n-2]
	}
	a := &s.allowing
	if err := a.read(args[1:]); err != nil {
		return err
	}
	made, err := s.server.service.Refund(s.ctx, s.caller, a.requests, taken, "")
	if err != nil {
		return err
	}
	s.out.Uint(service.Refunded(made))
	return nil
}

// grant is GRANT: the reply is how many may pass now.
func (s *session) grant(args [][]byte) error {
	n, err := argument.Count(args[3], "n", 0)
	if err != nil {
		return err
	}
	var until time.Time
	switch {
	case n > 0 && len(args) == 5:
		length, err := service.ParseWindow("duration", string(args[4]))
		if err != nil {
			return err
		}
		until = s.server.service.Now().Add(length)
	case n > 0 || len(args) > 5:
		return argument.ErrSyntax
	}
	answer, err := s.server.service.GrantLimit(s.ctx, s.caller, string(args[1]), string(args[2]), n, until)
	if err != nil {
		return err
	}
	s.out.Uint(answer.Remaining)
	return nil
}

// ban is BAN: the reply is until when, in Unix ms.
func (s *session) ban(args [][]byte) error {
	length, err := service.ParseWindow("duration", string(args[3]))
	if err != nil {
		return err
	}
	answer, err := s.server.service.BanKey(s.ctx, s.caller, string(args[1]), string(args[2]), length)
	if err != nil {
		return err
	}
	s.out.Int(answer.Until.UnixMilli())
	return nil
}

// unban is UNBAN: the reply is 1 if there was a ban.
func (s *session) unban(args [][]byte) error {
	answer, err := s.server.service.UnbanKey(s.ctx, s.caller, string(args[1]), string(args[2]))
	if err != nil {
		return err
	}
	s.out.Int(int64(bit(answer.Was)))
	return nil
}

// mostBans is how many BANS lists at most, as over HTTP.
const mostBans = 1000

// bans is BANS: of each ban the limit, the key, and until when, in Unix ms.
func (s *session) bans(args [][]byte) error {
	n := uint64(100)
	switch {
	case len(args) > 2:
		return argument.ErrSyntax
	case len(args) == 2:
		var err error
		if n, err = argument.Count(args[1], "n", 1); err != nil {
			return err
		}
	}
	answer, err := s.server.service.Bans(s.caller, int(min(n, mostBans)))
	if err != nil {
		return err
	}
	s.out.Array(len(answer.Bans))
	for _, b := range answer.Bans {
		s.out.Array(3)
		s.out.Bulk(b.Name)
		s.out.Bulk(b.Key)
		s.out.Int(b.Until.UnixMilli())
	}
	return nil
}
