package counting

import (
	"math"
	"strconv"

	"github.com/weir-counter/weir/resp/argument"
)

func (s *Session) incr(args [][]byte) error { return s.add(args[1], 1) }

func (s *Session) decr(args [][]byte) error { return s.add(args[1], -1) }

func (s *Session) incrBy(args [][]byte) error {
	by, err := argument.Int(args[2])
	if err != nil {
		return err
	}
	return s.add(args[1], by)
}

func (s *Session) decrBy(args [][]byte) error {
	by, err := argument.Int(args[2])
	switch {
	case err != nil:
		return err
	case by == math.MinInt64:
		return argument.Fail("ERR", "decrement would overflow")
	}
	return s.add(args[1], -by)
}

func (s *Session) add(key []byte, by int64) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	value, err := s.Counters.Add(s.Millis, key, by)
	if err != nil {
		return Failure(err)
	}
	s.Out.Int(value)
	return nil
}

func (s *Session) get(args [][]byte) error {
	s.writeCounter(args[1])
	return nil
}

func (s *Session) mget(args [][]byte) error {
	s.Out.Array(len(args) - 1)
	for _, key := range args[1:] {
		s.writeCounter(key)
	}
	return nil
}

func (s *Session) writeCounter(key []byte) {
	c, ok := s.Counters.Get(s.Millis, key)
	if !ok {
		s.Out.Null()
		return
	}
	s.writeText(c.Value)
}

// writeText writes a number as Redis writes values.
func (s *Session) writeText(n int64) {
	var digits [20]byte
	s.Out.BulkBytes(strconv.AppendInt(digits[:0], n, 10))
}

func (s *Session) exists(args [][]byte) error {
	n := 0
	for _, key := range args[1:] {
		if _, ok := s.Counters.Get(s.Millis, key); ok {
			n++
		}
	}
	s.Out.Int(int64(n))
	return nil
}
