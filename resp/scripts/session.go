package scripts

import (
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/resp/counters"
	"github.com/weir-counter/weir/resp/counting"
)

// Session is one connection's use of scripts. It belongs to the goroutine of the connection.
type Session struct {
	*counting.Session
	Door Door
}

// Door is what scripts need of a connection beside its counters.
type Door interface {
	// Bucket asks one key's limit that the request brings along, and takes n of it, all or none; peek takes and counts
	// nothing. The result is valid until the next decision of the connection.
	Bucket(key []byte, l admit.Limit, n uint64, peek bool) (*admit.Result, error)

	// PermitCounters refuses keys that are not the caller's.
	PermitCounters(keys [][]byte) error
}

// hold checks that keys of counters are the caller's, and makes all until Release one step for them.
func (s *Session) hold(keys [][]byte) error {
	if err := s.Door.PermitCounters(keys); err != nil {
		return err
	}
	var of counters.Shards
	for _, key := range keys {
		if err := counting.CheckKey(key); err != nil {
			return err
		}
		of |= s.Counters.ShardOf(key)
	}
	s.Counters.Hold(of)
	return nil
}
