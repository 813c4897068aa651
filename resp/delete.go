package resp

import (
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/service"
)

// del is DEL: the reply is how many of the keys had hits, a counter, or had used something of a limit that requests brought
// along.
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
		used, err := s.server.service.ResetInline(s.ctx, s.caller, string(key))
		if err != nil {
			return err
		}
		if s.counters.Counters.Remove(s.counters.Millis, key) || existed || used > 0 {
			n++
		}
	}
	s.out.Int(int64(n))
	return nil
}

// resetLimits is RESET with keys: what they have used of limits that requests brought along is forgotten, or of the limit that
// is named. The reply is how many of the keys had used something.
func (s *session) resetLimits(keys [][]byte) error {
	name := ""
	if last := len(keys) - 2; last > 0 && argument.Is(keys[last], "NAME") {
		name, keys = string(keys[last+1]), keys[:last]
	}
	if s.multi != nil {
		s.spoilTransaction()
		return argument.Fail("ERR", "RESET of keys can't be in a transaction")
	}
	pool := s.server.service.Pools.Admin
	if err := pool.Enter(s.caller, 1); err != nil {
		return err
	}
	defer pool.Leave(s.caller, 1)
	n := 0
	for _, key := range keys {
		was, err := s.resetLimit(string(key), name)
		if err != nil {
			return err
		}
		if was {
			n++
		}
	}
	s.out.Int(int64(n))
	return nil
}

func (s *session) resetLimit(key, name string) (was bool, err error) {
	if name == "" {
		used, err := s.server.service.ResetInline(s.ctx, s.caller, key)
		return used > 0, err
	}
	made, err := s.server.service.ResetLimit(s.ctx, s.caller, name, key)
	return made.Was, err
}
