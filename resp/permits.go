package resp

import (
	"errors"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/service"
)

// takePermit is PERMIT: the permit's ID and its ttl in ms, or null and after how many ms one is free.
func (s *session) takePermit(args [][]byte) error {
	limit := ""
	switch {
	case len(args) == 4 && argument.Is(args[2], "NAME"):
		limit = string(args[3])
	case len(args) != 2:
		return argument.ErrSyntax
	}
	answer, err := s.server.service.TakePermit(s.caller, string(args[1]), limit)
	var denied *service.Error
	if errors.As(err, &denied) && denied.Code == api.CodeAtOnce {
		s.out.Array(2)
		s.out.Null()
		s.out.Int(wholeUnits(denied.RetryAfter, time.Millisecond))
		return nil
	}
	if err != nil {
		return err
	}
	s.out.Array(2)
	s.out.Bulk(answer.ID)
	s.out.Int(wholeUnits(answer.TTL(), time.Millisecond))
	return nil
}

// heartbeat is HEARTBEAT: for how many ms more the permit is held.
func (s *session) heartbeat(args [][]byte) error {
	answer, err := s.server.service.RenewPermit(s.caller, string(args[1]))
	if err != nil {
		return err
	}
	s.out.Int(wholeUnits(answer.TTL(), time.Millisecond))
	return nil
}

// release is RELEASE: 1 if the permit was held.
func (s *session) release(args [][]byte) error {
	answer, err := s.server.service.ReleasePermit(s.caller, string(args[1]))
	if err != nil {
		return err
	}
	s.out.Int(int64(bit(answer.Released)))
	return nil
}
