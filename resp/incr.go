package resp

import (
	"errors"
	"math"
	"strconv"

	"github.com/weir-counter/weir/resp/counters"
)

func (s *session) incr(args [][]byte) error { return s.add(args[1], 1) }

func (s *session) decr(args [][]byte) error { return s.add(args[1], -1) }

func (s *session) incrBy(args [][]byte) error {
	by, err := readInt(args[2])
	if err != nil {
		return err
	}
	return s.add(args[1], by)
}

func (s *session) decrBy(args [][]byte) error {
	by, err := readInt(args[2])
	switch {
	case err != nil:
		return err
	case by == math.MinInt64:
		return &replyError{"ERR", "decrement would overflow"}
	}
	return s.add(args[1], -by)
}

func (s *session) add(key []byte, by int64) error {
	if err := checkCounterKey(key); err != nil {
		return err
	}
	value, err := s.counters.Add(s.millis, key, by)
	if err != nil {
		return counterError(err)
	}
	s.out.Int(value)
	return nil
}

// maxCounterKey is the longest key of a counter, in bytes: that of a hit.
const maxCounterKey = 512

func checkCounterKey(key []byte) error {
	if len(key) > maxCounterKey {
		return &replyError{"ERR", "invalid_key: key of " + strconv.Itoa(len(key)) + " bytes: must have at most 512"}
	}
	return nil
}

// counterError is an error of package counters, as Redis has it.
func counterError(err error) error {
	if errors.Is(err, counters.ErrOverflow) {
		return errOverflow
	}
	return &replyError{"OOM", err.Error() + ": start the server with a larger --resp-counters, or let counters expire sooner"}
}

func (s *session) get(args [][]byte) error {
	s.writeCounter(args[1])
	return nil
}

func (s *session) mget(args [][]byte) error {
	s.out.Array(len(args) - 1)
	for _, key := range args[1:] {
		s.writeCounter(key)
	}
	return nil
}

func (s *session) writeCounter(key []byte) {
	c, ok := s.counters.Get(s.millis, key)
	if !ok {
		s.out.Null()
		return
	}
	s.writeText(c.Value)
}

// writeText writes a number as Redis writes values.
func (s *session) writeText(n int64) {
	var digits [20]byte
	s.out.BulkBytes(strconv.AppendInt(digits[:0], n, 10))
}

func (s *session) exists(args [][]byte) error {
	n := 0
	for _, key := range args[1:] {
		if _, ok := s.counters.Get(s.millis, key); ok {
			n++
		}
	}
	s.out.Int(int64(n))
	return nil
}
