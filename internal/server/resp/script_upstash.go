package resp

import (
	"bytes"
	"math"
	"strconv"
)

// upstashScripts are those of @upstash/ratelimit for one region: a fixed window, and one that slides by weighing the
// window before. A last key, if there is one, is of a counter with the limit in place of the first argument's.
func upstashScripts() []*Script {
	const library = "@upstash/ratelimit 2.2 (fixedWindow, slidingWindow)"
	return []*Script{
		{library: library, SHA: "b2efc02798c8e9b471a10f9b1d5745db89923ff3", keys: 1, args: 3, run: (*ScriptSession).upstashFixed},
		{library: library, SHA: "823cb2a5a902d69681244f5e28e5ebb8f2a89edd", keys: 1, args: 1, run: (*ScriptSession).upstashFixedLeft},
		{library: library, SHA: "74740bb3d7792848093cdef586b6b6037c455fd6", keys: 2, args: 4, run: (*ScriptSession).upstashSliding},
		{library: library, SHA: "7ca36169e0fc9caedd81b4eef8e99854c157f9b5", keys: 2, args: 3, run: (*ScriptSession).upstashSlidingLeft},
	}
}

// upstashFixed is asked with the limit, the window in milliseconds, and what to add.
func (s *ScriptSession) upstashFixed(keys, args [][]byte) error { return s.fixed(keys, args, true) }

// upstashFixedLeft is asked with the limit.
func (s *ScriptSession) upstashFixedLeft(keys, args [][]byte) error {
	return s.fixed(keys, args, false)
}

func (s *ScriptSession) fixed(keys, args [][]byte, add bool) error {
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
func (s *ScriptSession) upstashSliding(keys, args [][]byte) error { return s.slide(keys, args, true) }

// upstashSlidingLeft is upstashSliding that adds nothing.
func (s *ScriptSession) upstashSlidingLeft(keys, args [][]byte) error {
	return s.slide(keys, args, false)
}

func (s *ScriptSession) slide(keys, args [][]byte, add bool) error {
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
		return NewReplyError("ERR", "a sliding window needs a time from 0 and a window from 1 ms")
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
func (s *ScriptSession) upstashTokens(keys [][]byte, tokens int64) (int64, error) {
	if len(keys) == 0 {
		return tokens, nil
	}
	if c, ok := s.Counters.Get(s.Millis, keys[0]); ok {
		return c.Value, nil
	}
	return tokens, nil
}

// addWithin adds to a counter, which expires so many milliseconds after it was made.
func (s *ScriptSession) addWithin(key []byte, by, life int64) (int64, error) {
	const longest = math.MaxInt64 / 2
	if life > longest {
		return 0, ErrExpireTime
	}
	value, err := s.Counters.Add(s.Millis, key, by)
	if err != nil {
		return 0, CounterFailure(err)
	}
	if value == by {
		s.Counters.Expire(s.Millis, key, max(s.Millis+life, 1), Always)
	}
	return value, nil
}

// upstashBucketScripts are those of @upstash/ratelimit for one region beside its windows.
func upstashBucketScripts() []*Script {
	const library = "@upstash/ratelimit 2.2 (tokenBucket, cachedFixedWindow, resetUsedTokens)"
	return []*Script{
		{library: library, SHA: "d60be5bd3d83482ae229309f1f7425424f891204", keys: 1, args: 5, run: (*ScriptSession).upstashBucket},
		{library: library, SHA: "40daf4a441df736f5c99f8b77bbe176c909e5de4", keys: 1, args: 1, run: (*ScriptSession).upstashBucketLeft},
		{library: library, SHA: "1861a700bafe96c833a483af6b1c28a8897cfdb0", keys: 1, args: 2, run: (*ScriptSession).upstashCached},
		{library: library, SHA: "eb82f0e853d2fc9a236fa9bfbe704fda6ac2fc36", keys: 1, run: (*ScriptSession).upstashCachedLeft},
		{library: library, SHA: "54bd274ddc59fb3be0f42deee2f64322a10e2b50", keys: 1, run: (*ScriptSession).upstashReset},
	}
}

// refilledSuffix ends the key of the counter that has the time of a bucket's last refill, in milliseconds of the client's
// clock. The bucket's own key has its tokens.
const refilledSuffix = ":refilledAt"

// largestToken bounds numbers of a bucket: they are then exact as floats, which they are in Redis.
const largestToken = 1 << 53

// upstashBucket is asked with the most tokens, the milliseconds between refills, what comes with each, the time in milliseconds, and
// what to take; a second key, if there is one, is of a counter with the most tokens. A bucket is full where there is none.
func (s *ScriptSession) upstashBucket(keys, args [][]byte) error {
	var numbers [5]int64
	for i := range numbers {
		n, err := ArgumentInt(args[i])
		if err != nil {
			return err
		}
		if n < -largestToken || n > largestToken {
			return ErrNotInteger
		}
		numbers[i] = n
	}
	interval, refill, now, take := numbers[1], numbers[2], numbers[3], numbers[4]
	if interval < 1 || refill < 1 || now < 0 {
		return NewReplyError("ERR", "a token bucket needs an interval from 1 ms, a refill of 1 token or more, and a time from 0")
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
		return ErrOverflow
	}
	if err := s.keepBucket(b, left, math.Ceil(float64(b.most-left)/float64(refill))*float64(interval)); err != nil {
		return err
	}
	s.writeBucket(left, b.refilled+interval, b.most)
	return nil
}

// upstashBucketLeft is asked with the most tokens; the reply is what is left, and when the bucket was refilled, -1 for never.
func (s *ScriptSession) upstashBucketLeft(keys, args [][]byte) error {
	most, err := ArgumentInt(args[0])
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
func (s *ScriptSession) holdBucket(keys [][]byte, most int64) (b tokenBucket, err error) {
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
func (s *ScriptSession) keepBucket(b tokenBucket, left int64, life float64) error {
	if life > math.MaxInt64/2 {
		return ErrExpireTime
	}
	for i, value := range []int64{left, b.refilled} {
		to := CounterSetting{Counter: Counter{Value: value}, Keep: life <= 0}
		if life > 0 {
			to.Expires = s.Millis + int64(life)
		}
		if _, _, _, err := s.Counters.Set(s.Millis, b.keys[i], to); err != nil {
			return CounterFailure(err)
		}
	}
	return nil
}

func (s *ScriptSession) writeBucket(left, at, most int64) {
	s.Out.Array(3)
	s.Out.Int(left)
	s.Out.Int(at)
	s.Out.Int(most)
}

// upstashCached is asked with the window in milliseconds, and what to add. In Redis such a counter never expires: the script
// compares a number with a text.
func (s *ScriptSession) upstashCached(keys, args [][]byte) error {
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
func (s *ScriptSession) upstashCachedLeft(keys, _ [][]byte) error {
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
func (s *ScriptSession) upstashReset(keys, _ [][]byte) error {
	begin, all := bytes.CutSuffix(keys[0], []byte("*"))
	if bytes.ContainsAny(begin, `*?[\`) || len(begin) == 0 {
		return NewReplyError("ERR", `resetUsedTokens takes identifiers without * ? [ \`)
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
