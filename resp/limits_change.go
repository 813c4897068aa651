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
