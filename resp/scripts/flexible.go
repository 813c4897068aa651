package scripts

import (
	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/counters"
	"github.com/weir-counter/weir/resp/counting"
)

// flexibleScripts are those of rate-limiter-flexible: a fixed window. The arguments are points and seconds; the reply
// is the points that are used, and in how many milliseconds the window ends.
func flexibleScripts() []*Script {
	const library = "rate-limiter-flexible 2 to 11 (RateLimiterRedis, RateLimiterValkey)"
	return []*Script{
		{library: library, SHA: "a1de965f42e177aa339706bd580f049065eca79a", keys: 1, args: 2, run: func(s *Session, keys, args [][]byte) error { return s.flexible(keys, args, true) }},
		{library: library, SHA: "0aa93fe6a34317527000a66828426c0ae2104618", keys: 1, args: 2, run: func(s *Session, keys, args [][]byte) error { return s.flexible(keys, args, false) }},
	}
}

// flexible adds points. A counter that never expires, such as of a key that was blocked for good, stays so, or with
// ends expires from now on: the libraries differ.
func (s *Session) flexible(keys, args [][]byte, ends bool) error {
	key := keys[0]
	points, err := argument.Int(args[0])
	if err != nil {
		return err
	}
	var life argument.Lifetime
	if _, err := life.Read([]byte("EX"), args[1:], s.Millis); err != nil {
		return err
	}
	if err := s.hold(keys[:1]); err != nil {
		return err
	}
	defer s.Counters.Release()
	if _, _, _, err := s.Counters.Set(s.Millis, key, counters.Setting{Counter: counters.Counter{Expires: life.At}, OnlyIf: counters.Absent}); err != nil {
		return counting.Failure(err)
	}
	used, err := s.Counters.Add(s.Millis, key, points)
	if err != nil {
		return counting.Failure(err)
	}
	if ends {
		s.Counters.Expire(s.Millis, key, life.At, counters.Absent)
	}
	left := int64(-1)
	if c, _ := s.Counters.Get(s.Millis, key); c.Expires != 0 {
		left = c.Expires - s.Millis
	}
	s.writePair(used, left)
	return nil
}
