package scripts

import (
	"bytes"
	"math"
	"strconv"

	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/counters"
	"github.com/weir-counter/weir/resp/counting"
)

// upstashBucketScripts are those of @upstash/ratelimit for one region beside its windows.
func upstashBucketScripts() []*Script {
	const library = "@upstash/ratelimit 2.2 (tokenBucket, cachedFixedWindow, resetUsedTokens)"
	return []*Script{
		{library: library, SHA: "d60be5bd3d83482ae229309f1f7425424f891204", keys: 1, args: 5, run: (*Session).upstashBucket},
		{library: library, SHA: "40daf4a441df736f5c99f8b77bbe176c909e5de4", keys: 1, args: 1, run: (*Session).upstashBucketLeft},
		{library: library, SHA: "1861a700bafe96c833a483af6b1c28a8897cfdb0", keys: 1, args: 2, run: (*Session).upstashCached},
		{library: library, SHA: "eb82f0e853d2fc9a236fa9bfbe704fda6ac2fc36", keys: 1, run: (*Session).upstashCachedLeft},
		{library: library, SHA: "54bd274ddc59fb3be0f42deee2f64322a10e2b50", keys: 1, run: (*Session).upstashReset},
	}
}

// refilledSuffix ends the key of the counter that has the time of a bucket's last refill, in milliseconds of the client's
// clock. The bucket's own key has its tokens.
const refilledSuffix = ":refilledAt"

// largestToken bounds numbers of a bucket: they are then exact as floats, which they are in Redis.
const largestToken = 1 << 53

// upstashBucket is asked with the most tokens, the milliseconds between refills, what comes with each, the time in milliseconds, and
// what to take; a second key, if there is one, is of a counter with the most tokens. A bucket is full where there is none.
func (s *Session) upstashBucket(keys, args [][]byte) error {
	var numbers [5]int64
	for i := range numbers {
		n, err := argument.Int(args[i])
		if err != nil {
			return err
		}
		if n < -largestToken || n > largestToken {
			return argument.ErrNotInteger
		}
		numbers[i] = n
	}
	interval, refill, now, take := numbers[1], numbers[2], numbers[3], numbers[4]
	if interval < 1 || refill < 1 || now < 0 {
		return argument.Fail("ERR", "a token bucket needs an interval from 1 ms, a refill of 1 token or more, and a time from 0")
	}
	b, err := s.holdBucket(keys, numbers[0])
	if err != nil {
		return err
	}
	defer s.Counters.Release()
	if !b.is {
		b.tokens, b.refilled = b.most, now
	}
	if refills := (now - b.refilled) / interval; now-b.refilled >= interval {
		b.tokens = int64(min(float64(b.most), float64(b.tokens)+float64(refills)*float64(refill)))
		b.refilled += refills * interval
	}
	left := b.tokens - take
	if take > 0 && left < 0 {
		s.writeBucket(-1, b.refilled+interval, b.most)
		return nil
	}
	if left > largestToken {
		return argument.ErrOverflow
	}
	if err := s.keepBucket(b, left, math.Ceil(float64(b.most-left)/float64(refill))*float64(interval)); err != nil {
		return err
	}
	s.writeBucket(left, b.refilled+interval, b.most)
	return nil
}

// upstashBucketLeft is asked with the most tokens; the reply is what is left, and when the bucket was refilled, -1 for never.
func (s *Session) upstashBucketLeft(keys, args [][]byte) error {
	most, err := argument.Int(args[0])
	if err != nil {
		return err
	}
	b, err := s.holdBucket(keys, most)
	if err != nil {
		return err
	}
	defer s.Counters.Release()
	if !b.is {
		b.tokens, b.refilled = b.most, -1
	}
	s.writeBucket(b.tokens, b.refilled, b.most)
	return nil
}

// tokenBucket is one bucket, as its counters have it.
type tokenBucket struct {
	keys             [2][]byte // of tokens and refilled
	is               bool
	tokens, refilled int64
	most             int64
}

// holdBucket reads a bucket, and makes all until Release one step for it.
func (s *Session) holdBucket(keys [][]byte, most int64) (b tokenBucket, err error) {
	b.keys = [2][]byte{keys[0], append(bytes.Clone(keys[0]), refilledSuffix...)}
	keys = upstashKeys(keys, 1)
	if err := s.hold(append(b.keys[:], keys[1:]...)); err != nil {
		return b, err
	}
	if b.most, err = s.upstashTokens(keys[1:], most); err != nil {
		s.Counters.Release()
		return b, err
	}
	tokens, is := s.Counters.Get(s.Millis, b.keys[0])
	refilled, was := s.Counters.Get(s.Millis, b.keys[1])
	b.is, b.tokens, b.refilled = is && was, tokens.Value, refilled.Value
	return b, nil
}

// keepBucket writes a bucket, which expires once it is full: in so many milliseconds. One that is full already stays as long
// as it would have.
func (s *Session) keepBucket(b tokenBucket, left int64, life float64) error {
	if life > math.MaxInt64/2 {
		return argument.ErrExpireTime
	}
	for i, value := range []int64{left, b.refilled} {
		to := counters.Setting{Counter: counters.Counter{Value: value}, Keep: life <= 0}
		if life > 0 {
			to.Expires = s.Millis + int64(life)
		}
		if _, _, _, err := s.Counters.Set(s.Millis, b.keys[i], to); err != nil {
			return counting.Failure(err)
		}
	}
	return nil
}

func (s *Session) writeBucket(left, at, most int64) {
	s.Out.Array(3)
	s.Out.Int(left)
	s.Out.Int(at)
	s.Out.Int(most)
}

// upstashCached is asked with the window in milliseconds, and what to add. In Redis such a counter never expires: the script
// compares a number with a text.
func (s *Session) upstashCached(keys, args [][]byte) error {
	numbers, err := readInts(args[:2])
	if err != nil {
		return err
	}
	if err := s.hold(keys[:1]); err != nil {
		return err
	}
	defer s.Counters.Release()
	used, err := s.addWithin(keys[0], numbers[1], numbers[0])
	if err != nil {
		return err
	}
	s.Out.Int(used)
	return nil
}

// upstashCachedLeft replies as GET, and 0 where there is no counter.
func (s *Session) upstashCachedLeft(keys, _ [][]byte) error {
	if err := s.hold(keys[:1]); err != nil {
		return err
	}
	defer s.Counters.Release()
	if c, ok := s.Counters.Get(s.Millis, keys[0]); ok {
		s.Out.Bulk(strconv.FormatInt(c.Value, 10))
	} else {
		s.Out.Int(0)
	}
	return nil
}

// upstashReset removes the counters of a pattern: a key, or all keys with a beginning, which a * follows. Other patterns
// are refused, where Redis would remove what they fit.
func (s *Session) upstashReset(keys, _ [][]byte) error {
	begin, all := bytes.CutSuffix(keys[0], []byte("*"))
	if bytes.ContainsAny(begin, `*?[\`) || len(begin) == 0 {
		return argument.Fail("ERR", `resetUsedTokens takes identifiers without * ? [ \`)
	}
	if all {
		if err := s.Door.PermitCounters([][]byte{begin}); err != nil {
			return err
		}
		s.Counters.RemoveAll(begin)
		s.Out.Null()
		return nil
	}
	both := [][]byte{begin, append(bytes.Clone(begin), refilledSuffix...)}
	if err := s.hold(both); err != nil {
		return err
	}
	defer s.Counters.Release()
	for _, key := range both {
		s.Counters.Remove(s.Millis, key)
	}
	s.Out.Null()
	return nil
}
