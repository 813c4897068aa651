package scripts

import (
	"math"

	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/counters"
	"github.com/weir-counter/weir/resp/counting"
)

// upstashScripts are those of @upstash/ratelimit for one region: a fixed window, and one that slides by weighing the
// window before. A last key, if there is one, is of a counter with the limit in place of the first argument's.
func upstashScripts() []*Script {
	const library = "@upstash/ratelimit 2.2 (fixedWindow, slidingWindow)"
	return []*Script{
		{library: library, SHA: "b2efc02798c8e9b471a10f9b1d5745db89923ff3", keys: 1, args: 3, run: (*Session).upstashFixed},
		{library: library, SHA: "823cb2a5a902d69681244f5e28e5ebb8f2a89edd", keys: 1, args: 1, run: (*Session).upstashFixedLeft},
		{library: library, SHA: "74740bb3d7792848093cdef586b6b6037c455fd6", keys: 2, args: 4, run: (*Session).upstashSliding},
		{library: library, SHA: "7ca36169e0fc9caedd81b4eef8e99854c157f9b5", keys: 2, args: 3, run: (*Session).upstashSlidingLeft},
	}
}

// upstashFixed is asked with the limit, the window in milliseconds, and what to add.
func (s *Session) upstashFixed(keys, args [][]byte) error { return s.fixed(keys, args, true) }

// upstashFixedLeft is asked with the limit.
func (s *Session) upstashFixedLeft(keys, args [][]byte) error { return s.fixed(keys, args, false) }

func (s *Session) fixed(keys, args [][]byte, add bool) error {
	count := 1
	if add {
		count = 3
	}
	numbers, err := readInts(args[:count])
	if err != nil {
		return err
	}
	keys = upstashKeys(keys, 1)
	if err := s.hold(keys); err != nil {
		return err
	}
	defer s.Counters.Release()
	tokens, err := s.upstashTokens(keys[1:], numbers[0])
	if err != nil {
		return err
	}
	if !add {
		c, _ := s.Counters.Get(s.Millis, keys[0])
		s.writePair(tokens-c.Value, tokens)
		return nil
	}
	used, err := s.addWithin(keys[0], numbers[2], numbers[1])
	if err != nil {
		return err
	}
	s.writePair(used, tokens)
	return nil
}

// upstashSliding is asked with the limit, the time and the window in milliseconds, and what to add; keys are of this
// window and the one before.
func (s *Session) upstashSliding(keys, args [][]byte) error { return s.slide(keys, args, true) }

// upstashSlidingLeft is upstashSliding that adds nothing.
func (s *Session) upstashSlidingLeft(keys, args [][]byte) error { return s.slide(keys, args, false) }

func (s *Session) slide(keys, args [][]byte, add bool) error {
	count := 3
	if add {
		count = 4
	}
	numbers, err := readInts(args[:count])
	if err != nil {
		return err
	}
	now, window := numbers[1], numbers[2]
	const longest = math.MaxInt64 / 8
	if now < 0 || window < 1 || window > longest {
		return argument.Fail("ERR", "a sliding window needs a time from 0 and a window from 1 ms")
	}
	keys = upstashKeys(keys, 2)
	if err := s.hold(keys); err != nil {
		return err
	}
	defer s.Counters.Release()
	tokens, err := s.upstashTokens(keys[2:], numbers[0])
	if err != nil {
		return err
	}
	current, _ := s.Counters.Get(s.Millis, keys[0])
	before, _ := s.Counters.Get(s.Millis, keys[1])
	passed := float64(now%window) / float64(window)
	weighed := int64(math.Floor((1 - passed) * float64(before.Value)))
	switch {
	case !add:
		s.writePair(tokens-(weighed+current.Value), tokens)
		return nil
	case numbers[3] > 0 && weighed+current.Value >= tokens:
		s.writePair(-1, tokens)
		return nil
	}
	used, err := s.addWithin(keys[0], numbers[3], window*2+1000) // until it is no window before any more
	if err != nil {
		return err
	}
	s.writePair(tokens-(used+weighed), tokens)
	return nil
}

// upstashKeys are the keys of windows, so many, and that of the counter with the limit if there is one.
func upstashKeys(keys [][]byte, windows int) [][]byte {
	if len(keys) == windows || len(keys[windows]) == 0 {
		return keys[:windows]
	}
	return keys[:windows+1]
}

// upstashTokens is the limit: that of the counter, if there is one.
func (s *Session) upstashTokens(keys [][]byte, tokens int64) (int64, error) {
	if len(keys) == 0 {
		return tokens, nil
	}
	if c, ok := s.Counters.Get(s.Millis, keys[0]); ok {
		return c.Value, nil
	}
	return tokens, nil
}

// addWithin adds to a counter, which expires so many milliseconds after it was made.
func (s *Session) addWithin(key []byte, by, life int64) (int64, error) {
	const longest = math.MaxInt64 / 2
	if life > longest {
		return 0, argument.ErrExpireTime
	}
	value, err := s.Counters.Add(s.Millis, key, by)
	if err != nil {
		return 0, counting.Failure(err)
	}
	if value == by {
		s.Counters.Expire(s.Millis, key, max(s.Millis+life, 1), counters.Always)
	}
	return value, nil
}
