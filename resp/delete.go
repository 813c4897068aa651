package resp

import (
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// del is DEL: the reply is how many of the keys had hits or a counter.
func (s *session) del(args [][]byte) error {
	pool := s.server.service.Pools.Admin
	if err := pool.Enter(s.caller, 1); err != nil {
		return err
	}
	defer pool.Leave(s.caller, 1)
	n := 0
	for _, key := range args[1:] {
		existed := false
		switch err := s.server.service.Delete(s.ctx, s.caller, string(key)); { // a copy: other nodes may be asked
		case err == nil:
			existed = true
		case service.AsError(err).Code != api.CodeUnknownKey:
			return err
		}
		if s.counters.Counters.Remove(s.counters.Millis, key) || existed {
			n++
		}
	}
	s.out.Int(int64(n))
	return nil
}
