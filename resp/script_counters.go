package resp

import (
	"math"

	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/counters"
	"github.com/weir-counter/weir/resp/counting"
)

// A script of counters is one step for the keys that it names: others neither see nor change them meanwhile.

// holdCounters checks that keys are the caller's, and makes all until Release one step for them.
func (s *session) holdCounters(keys [][]byte) error {
	if err := s.server.service.PermitCounters(s.caller, keys); err != nil {
		return err
	}
	var of counters.Shards
	for _, key := range keys {
		if err := counting.CheckKey(key); err != nil {
			return err
		}
		of |= s.counters.Counters.ShardOf(key)
	}
	s.counters.Counters.Hold(of)
	return nil
}

// flexibleScripts are those of rate-limiter-flexible: a fixed window. The arguments are points and seconds; the reply
// is the points that are used, and in how many milliseconds the window ends.
func flexibleScripts() []*script {
	const library = "rate-limiter-flexible 2 to 11 (RateLimiterRedis, RateLimiterValkey)"
	return []*script{
		{library: library, sha: "a1de965f42e177aa339706bd580f049065eca79a", keys: 1, args: 2, run: func(s *session, keys, args [][]byte) error { return s.flexible(keys, args, true) }},
		{library: library, sha: "0aa93fe6a34317527000a66828426c0ae2104618", keys: 1, args: 2, run: func(s *session, keys, args [][]byte) error { return s.flexible(keys, args, false) }},
	}
}

// flexible adds points. A counter that never expires, such as of a key that was blocked for good, stays so, or with
// ends expires from now on: the libraries differ.
func (s *session) flexible(keys, args [][]byte, ends bool) error {
	key := keys[0]
	points, err := argument.Int(args[0])
	if err != nil {
		return err
	}
	var life argument.Lifetime
	if _, err := life.Read([]byte("EX"), args[1:], s.counters.Millis); err != nil {
		return err
	}
	if err := s.holdCounters(keys[:1]); err != nil {
		return err
	}
	defer s.counters.Counters.Release()
	if _, _, _, err := s.counters.Counters.Set(s.counters.Millis, key, counters.Setting{Counter: counters.Counter{Expires: life.At}, OnlyIf: counters.Absent}); err != nil {
		return counting.Failure(err)
	}
	used, err := s.counters.Counters.Add(s.counters.Millis, key, points)
	if err != nil {
		return counting.Failure(err)
	}
	if ends {
		s.counters.Counters.Expire(s.counters.Millis, key, life.At, counters.Absent)
	}
	left := int64(-1)
	if c, _ := s.counters.Counters.Get(s.counters.Millis, key); c.Expires != 0 {
		left = c.Expires - s.counters.Millis
	}
	s.writePair(used, left)
	return nil
}

// upstashScripts are those of @upstash/ratelimit for one region: a fixed window, and one that slides by weighing the
// window before. A last key, if there is one, is of a counter with the limit in place of the first argument's.
func upstashScripts() []*script {
	const library = "@upstash/ratelimit 2.2 (fixedWindow, slidingWindow)"
	return []*script{
		{library: library, sha: "b2efc02798c8e9b471a10f9b1d5745db89923ff3", keys: 1, args: 3, run: (*session).upstashFixed},
		{library: library, sha: "823cb2a5a902d69681244f5e28e5ebb8f2a89edd", keys: 1, args: 1, run: (*session).upstashFixedLeft},
		{library: library, sha: "74740bb3d7792848093cdef586b6b6037c455fd6", keys: 2, args: 4, run: (*session).upstashSliding},
		{library: library, sha: "7ca36169e0fc9caedd81b4eef8e99854c157f9b5", keys: 2, args: 3, run: (*session).upstashSlidingLeft},
	}
}

// upstashFixed is asked with the limit, the window in milliseconds, and what to add.
func (s *session) upstashFixed(keys, args [][]byte) error { return s.fixed(keys, args, true) }

// upstashFixedLeft is asked with the limit.
func (s *session) upstashFixedLeft(keys, args [][]byte) error { return s.fixed(keys, args, false) }

func (s *session) fixed(keys, args [][]byte, add bool) error {
	count := 1
	if add {
		count = 3
	}
	numbers, err := readInts(args[:count])
	if err != nil {
		return err
	}
	keys = upstashKeys(keys, 1)
	if err := s.holdCounters(keys); err != nil {
		return err
	}
	defer s.counters.Counters.Release()
	tokens, err := s.upstashTokens(keys[1:], numbers[0])
	if err != nil {
		return err
	}
	if !add {
		c, _ := s.counters.Counters.Get(s.counters.Millis, keys[0])
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
func (s *session) upstashSliding(keys, args [][]byte) error { return s.slide(keys, args, true) }

// upstashSlidingLeft is upstashSliding that adds nothing.
func (s *session) upstashSlidingLeft(keys, args [][]byte) error { return s.slide(keys, args, false) }

func (s *session) slide(keys, args [][]byte, add bool) error {
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
	if err := s.holdCounters(keys); err != nil {
		return err
	}
	defer s.counters.Counters.Release()
	tokens, err := s.upstashTokens(keys[2:], numbers[0])
	if err != nil {
		return err
	}
	current, _ := s.counters.Counters.Get(s.counters.Millis, keys[0])
	before, _ := s.counters.Counters.Get(s.counters.Millis, keys[1])
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
func (s *session) upstashTokens(keys [][]byte, tokens int64) (int64, error) {
	if len(keys) == 0 {
		return tokens, nil
	}
	if c, ok := s.counters.Counters.Get(s.counters.Millis, keys[0]); ok {
		return c.Value, nil
	}
	return tokens, nil
}

// addWithin adds to a counter, which expires so many milliseconds after it was made.
func (s *session) addWithin(key []byte, by, life int64) (int64, error) {
	const longest = math.MaxInt64 / 2
	if life > longest {
		return 0, argument.ErrExpireTime
	}
	value, err := s.counters.Counters.Add(s.counters.Millis, key, by)
	if err != nil {
		return 0, counting.Failure(err)
	}
	if value == by {
		s.counters.Counters.Expire(s.counters.Millis, key, max(s.counters.Millis+life, 1), counters.Always)
	}
	return value, nil
}

func (s *session) writePair(a, b int64) {
	s.out.Array(2)
	s.out.Int(a)
	s.out.Int(b)
}

// readInts reads numbers as commands of Redis have them.
func readInts(args [][]byte) (numbers [4]int64, err error) {
	for i, arg := range args {
		if numbers[i], err = argument.Int(arg); err != nil {
			return numbers, err
		}
	}
	return numbers, nil
}
