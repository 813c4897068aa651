package resp

import (
	"bytes"
	"math"
	"strconv"

	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/counters"
	"github.com/weir-counter/weir/resp/counting"
)

// upstashMoreScripts are those of @upstash/ratelimit for one region beside its windows.
func upstashMoreScripts() []*script {
	const library = "@upstash/ratelimit 2.2 (tokenBucket, cachedFixedWindow, resetUsedTokens)"
	return []*script{
		{library: library, sha: "d60be5bd3d83482ae229309f1f7425424f891204", keys: 1, args: 5, run: (*session).upstashBucket},
		{library: library, sha: "40daf4a441df736f5c99f8b77bbe176c909e5de4", keys: 1, args: 1, run: (*session).upstashBucketLeft},
		{library: library, sha: "1861a700bafe96c833a483af6b1c28a8897cfdb0", keys: 1, args: 2, run: (*session).upstashCached},
		{library: library, sha: "eb82f0e853d2fc9a236fa9bfbe704fda6ac2fc36", keys: 1, run: (*session).upstashCachedLeft},
		{library: library, sha: "54bd274ddc59fb3be0f42deee2f64322a10e2b50", keys: 1, run: (*session).upstashReset},
	}
}

// refilledSuffix ends the key of the counter that has the time of a bucket's last refill, in milliseconds of the client's
// clock. The bucket's own key has its tokens.
const refilledSuffix = ":refilledAt"

// largestToken bounds numbers of a bucket: they are then exact as floats, which they are in Redis.
const largestToken = 1 << 53

// upstashBucket is asked with the most tokens, the milliseconds between refills, what comes with each, the time in milliseconds, and
// what to take; a second key, if there is one, is of a counter with the most tokens. A bucket is full where there is none.
func (s *session) upstashBucket(keys, args [][]byte) error {
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
	defer s.counters.Counters.Release()
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
func (s *session) upstashBucketLeft(keys, args [][]byte) error {
	most, err := argument.Int(args[0])
	if err != nil {
		return err
	}
	b, err := s.holdBucket(keys, most)
	if err != nil {
		return err
	}
	defer s.counters.Counters.Release()
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
func (s *session) holdBucket(keys [][]byte, most int64) (b tokenBucket, err error) {
	b.keys = [2][]byte{keys[0], append(bytes.Clone(keys[0]), refilledSuffix...)}
	keys = upstashKeys(keys, 1)
	if err := s.holdCounters(append(b.keys[:], keys[1:]...)); err != nil {
		return b, err
	}
	if b.most, err = s.upstashTokens(keys[1:], most); err != nil {
		s.counters.Counters.Release()
		return b, err
	}
	tokens, is := s.counters.Counters.Get(s.counters.Millis, b.keys[0])
	refilled, was := s.counters.Counters.Get(s.counters.Millis, b.keys[1])
	b.is, b.tokens, b.refilled = is && was, tokens.Value, refilled.Value
	return b, nil
}

// keepBucket writes a bucket, which expires once it is full: in so many milliseconds. One that is full already stays as long
// as it would have.
func (s *session) keepBucket(b tokenBucket, left int64, life float64) error {
	if life > math.MaxInt64/2 {
		return argument.ErrExpireTime
	}
	for i, value := range []int64{left, b.refilled} {
		to := counters.Setting{Counter: counters.Counter{Value: value}, Keep: life <= 0}
		if life > 0 {
			to.Expires = s.counters.Millis + int64(life)
		}
		if _, _, _, err := s.counters.Counters.Set(s.counters.Millis, b.keys[i], to); err != nil {
			return counting.Failure(err)
		}
	}
	return nil
}

func (s *session) writeBucket(left, at, most int64) {
	s.out.Array(3)
	s.out.Int(left)
	s.out.Int(at)
	s.out.Int(most)
}

// upstashCached is asked with the window in milliseconds, and what to add. In Redis such a counter never expires: the script
// compares a number with a text.
func (s *session) upstashCached(keys, args [][]byte) error {
	numbers, err := readInts(args[:2])
	if err != nil {
		return err
	}
	if err := s.holdCounters(keys[:1]); err != nil {
		return err
	}
	defer s.counters.Counters.Release()
	used, err := s.addWithin(keys[0], numbers[1], numbers[0])
	if err != nil {
		return err
	}
	s.out.Int(used)
	return nil
}

// upstashCachedLeft replies as GET, and 0 where there is no counter.
func (s *session) upstashCachedLeft(keys, _ [][]byte) error {
	if err := s.holdCounters(keys[:1]); err != nil {
		return err
	}
	defer s.counters.Counters.Release()
	if c, ok := s.counters.Counters.Get(s.counters.Millis, keys[0]); ok {
		s.out.Bulk(strconv.FormatInt(c.Value, 10))
	} else {
		s.out.Int(0)
	}
	return nil
}

// upstashReset removes the counters of a pattern: a key, or all keys with a beginning, which a * follows. Other patterns
// are refused, where Redis would remove what they fit.
func (s *session) upstashReset(keys, _ [][]byte) error {
	begin, all := bytes.CutSuffix(keys[0], []byte("*"))
	if bytes.ContainsAny(begin, `*?[\`) || len(begin) == 0 {
		return argument.Fail("ERR", `resetUsedTokens takes identifiers without * ? [ \`)
	}
	if all {
		if err := s.server.service.PermitCounters(s.caller, [][]byte{begin}); err != nil {
			return err
		}
		s.counters.Counters.RemoveAll(begin)
		s.out.Null()
		return nil
	}
	both := [][]byte{begin, append(bytes.Clone(begin), refilledSuffix...)}
	if err := s.holdCounters(both); err != nil {
		return err
	}
	defer s.counters.Counters.Release()
	for _, key := range both {
		s.counters.Counters.Remove(s.counters.Millis, key)
	}
	s.out.Null()
	return nil
}
