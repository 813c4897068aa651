package resp

import (
	"bytes"
	"math"
)

const upstashRatelimit = "@upstash/ratelimit 1.2 to 2.2, for one region"

// upstashVersion says what differs between the versions of @upstash/ratelimit.
type upstashVersion struct {
	onlyValue bool // the reply has neither the limit,
	onlyLeft  bool // nor of a bucket the time of its refill
	anyCost   bool // a request that takes nothing, or gives back, is denied as others are
	anyLeft   bool // what is left need not be enough, but not 0
	shortLife bool // a bucket that is full is forgotten at once
}

// upstashScripts are those of @upstash/ratelimit for one region: a fixed window, one that slides by weighing the
// window before, and a token bucket. Since 2.0.8, a last key is of a counter with the limit in place of the first argument's.
func upstashScripts() (list []*Script) {
	type method func(s *session, v upstashVersion, keys, args [][]byte) error
	for _, one := range []struct {
		sha        string
		keys, args int
		version    upstashVersion
		run        method
	}{
		{"472e55443b62f60d0991028456c57815a387066d", 1, 3, upstashVersion{}, (*session).upstashFixed},
		{"b2efc02798c8e9b471a10f9b1d5745db89923ff3", 1, 3, upstashVersion{}, (*session).upstashFixed},
		{"40515c9dd0a08f8584f5f9b593935f6a87c1c1c3", 1, 1, upstashVersion{}, (*session).upstashFixedLeft},
		{"823cb2a5a902d69681244f5e28e5ebb8f2a89edd", 1, 1, upstashVersion{}, (*session).upstashFixedLeft},
		{"8c4c341934502aee132643ffbe58ead3450e5208", 1, 0, upstashVersion{}, (*session).upstashUsed},
		{"8e8f222ccae68b595ee6e3f3bf2199629a62b91a", 1, 0, upstashVersion{}, (*session).upstashUsed},
		{"eb82f0e853d2fc9a236fa9bfbe704fda6ac2fc36", 1, 0, upstashVersion{}, (*session).upstashUsed},

		{"e1391e429b699c780eb0480350cd5b7280fd9213", 2, 4, upstashVersion{onlyValue: true, anyCost: true}, (*session).upstashSliding},
		{"9b7842963bd73721f1a3011650c23c0010848ee3", 2, 4, upstashVersion{onlyValue: true}, (*session).upstashSliding},
		{"977fb636fb5ceb7e98a96d1b3a1272ba018efdae", 2, 4, upstashVersion{}, (*session).upstashSliding},
		{"74740bb3d7792848093cdef586b6b6037c455fd6", 2, 4, upstashVersion{}, (*session).upstashSliding},
		{"65a73ac5a05bf9712903bc304b77268980c1c417", 2, 2, upstashVersion{}, (*session).upstashSlidingUsed},
		{"ee3a3265fad822f83acad23f8a1e2f5c0b156b03", 2, 3, upstashVersion{}, (*session).upstashSlidingLeft},
		{"7ca36169e0fc9caedd81b4eef8e99854c157f9b5", 2, 3, upstashVersion{}, (*session).upstashSlidingLeft},

		{"5bece90aeef8189a8cfd28995b479529e270b3c6", 1, 5, upstashVersion{onlyValue: true, anyCost: true, anyLeft: true, shortLife: true}, (*session).upstashBucket},
		{"d1f857ebbdaeca90ccd2cd4eada61d7c8e5db1ca", 1, 5, upstashVersion{onlyValue: true, anyLeft: true}, (*session).upstashBucket},
		{"b35c5bc0b7fdae7dd0573d4529911cabaf9d1d89", 1, 5, upstashVersion{anyLeft: true}, (*session).upstashBucket},
		{"a9873a8026b509e99a49a0e5a2049756c693c384", 1, 5, upstashVersion{anyLeft: true}, (*session).upstashBucket},
		{"d60be5bd3d83482ae229309f1f7425424f891204", 1, 5, upstashVersion{}, (*session).upstashBucket},
		{"67f84c3691a7a22a78a9a3761b836ea40ef9dd0d", 1, 1, upstashVersion{onlyLeft: true}, (*session).upstashBucketLeft},
		{"a15be2bb1db2a15f7c82db06146f9d08983900d0", 1, 1, upstashVersion{onlyValue: true}, (*session).upstashBucketLeft},
		{"deb03663e8af5a968deee895dd081be553d2611b", 1, 1, upstashVersion{}, (*session).upstashBucketLeft},
		{"40daf4a441df736f5c99f8b77bbe176c909e5de4", 1, 1, upstashVersion{}, (*session).upstashBucketLeft},

		{"54bd274ddc59fb3be0f42deee2f64322a10e2b50", 1, 0, upstashVersion{}, (*session).upstashReset},
	} {
		list = append(list, &Script{library: upstashRatelimit, SHA: one.sha, keys: one.keys, args: one.args, run: func(s *session, keys, args [][]byte) error {
			return one.run(s, one.version, keys, args)
		}})
	}
	return list
}

// upstashFixed is asked with the limit, the window in milliseconds, and what to add.
func (s *session) upstashFixed(_ upstashVersion, keys, args [][]byte) error {
	return s.fixed(keys, args, true)
}

// upstashFixedLeft is asked with the limit.
func (s *session) upstashFixedLeft(_ upstashVersion, keys, args [][]byte) error {
	return s.fixed(keys, args, false)
}

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
	if err := s.hold(keys); err != nil {
		return err
	}
	defer s.counters.Release()
	tokens, err := s.upstashTokens(keys[1:], numbers[0])
	if err != nil {
		return err
	}
	if !add {
		c, _ := s.counters.Get(s.millis, keys[0])
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

// slidingWindow is what the counters of this window and the one before have, and the limit.
type slidingWindow struct{ used, weighed, tokens int64 }

// holdSliding reads the counters of two windows, and makes all until Release one step for them. A third key, if there is one, is of a
// counter with the limit.
func (s *session) holdSliding(keys [][]byte, tokens, now, window int64) (w slidingWindow, err error) {
	const longest = math.MaxInt64 / 8
	if now < 0 || window < 1 || window > longest {
		return w, NewReplyError("ERR", "a sliding window needs a time from 0 and a window from 1 ms")
	}
	keys = upstashKeys(keys, 2)
	if err := s.hold(keys); err != nil {
		return w, err
	}
	if w.tokens, err = s.upstashTokens(keys[2:], tokens); err != nil {
		s.counters.Release()
		return w, err
	}
	current, _ := s.counters.Get(s.millis, keys[0])
	before, _ := s.counters.Get(s.millis, keys[1])
	passed := float64(now%window) / float64(window)
	w.used, w.weighed = current.Value, int64(math.Floor((1-passed)*float64(before.Value)))
	return w, nil
}

// upstashSliding is asked with the limit, the time and the window in milliseconds, and what to add; keys are of this
// window and the one before.
func (s *session) upstashSliding(v upstashVersion, keys, args [][]byte) error {
	numbers, err := readInts(args[:4])
	if err != nil {
		return err
	}
	w, err := s.holdSliding(keys, numbers[0], numbers[1], numbers[2])
	if err != nil {
		return err
	}
	defer s.counters.Release()
	left := int64(-1)
	if (numbers[3] <= 0 && !v.anyCost) || w.weighed+w.used < w.tokens {
		used, err := s.addWithin(keys[0], numbers[3], numbers[2]*2+1000) // until it is no window before any more
		if err != nil {
			return err
		}
		left = w.tokens - (used + w.weighed)
	}
	if v.onlyValue {
		s.out.Int(left)
	} else {
		s.writePair(left, w.tokens)
	}
	return nil
}

// upstashSlidingLeft is asked as upstashSliding, and adds nothing.
func (s *session) upstashSlidingLeft(_ upstashVersion, keys, args [][]byte) error {
	numbers, err := readInts(args[:3])
	if err != nil {
		return err
	}
	w, err := s.holdSliding(keys, numbers[0], numbers[1], numbers[2])
	if err != nil {
		return err
	}
	defer s.counters.Release()
	s.writePair(w.tokens-(w.weighed+w.used), w.tokens)
	return nil
}

// upstashSlidingUsed is asked with the time and the window in milliseconds.
func (s *session) upstashSlidingUsed(_ upstashVersion, keys, args [][]byte) error {
	numbers, err := readInts(args[:2])
	if err != nil {
		return err
	}
	w, err := s.holdSliding(keys[:2], 0, numbers[0], numbers[1])
	if err != nil {
		return err
	}
	defer s.counters.Release()
	s.out.Int(w.weighed + w.used)
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
	if c, ok := s.counters.Get(s.millis, keys[0]); ok {
		return c.Value, nil
	}
	return tokens, nil
}

// addWithin adds to a counter, which expires so many milliseconds after it was made.
func (s *session) addWithin(key []byte, by, life int64) (int64, error) {
	const longest = math.MaxInt64 / 2
	if life > longest {
		return 0, ErrExpireTime
	}
	value, err := s.counters.Add(s.millis, key, by)
	if err != nil {
		return 0, CounterFailure(err)
	}
	if value == by {
		s.counters.Expire(s.millis, key, max(s.millis+life, 1), Always)
	}
	return value, nil
}

// refilledSuffix ends the key of the counter that has the time of a bucket's last refill, in milliseconds of the client's
// clock. The bucket's own key has its tokens.
const refilledSuffix = ":refilledAt"

// largestToken bounds numbers of a bucket: they are then exact as floats, which they are in Redis.
const largestToken = 1 << 53

// upstashBucket is asked with the most tokens, the milliseconds between refills, what comes with each, the time in milliseconds, and
// what to take; a second key, if there is one, is of a counter with the most tokens. A bucket is full where there is none.
func (s *session) upstashBucket(v upstashVersion, keys, args [][]byte) error {
	numbers, err := readInts(args[:5])
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if n < -largestToken || n > largestToken {
			return ErrNotInteger
		}
	}
	interval, refill, now, take := numbers[1], numbers[2], numbers[3], numbers[4]
	if interval < 1 || refill < 1 || now < 0 {
		return NewReplyError("ERR", "a token bucket needs an interval from 1 ms, a refill of 1 token or more, and a time from 0")
	}
	b, err := s.holdBucket(keys, numbers[0])
	if err != nil {
		return err
	}
	defer s.counters.Release()
	if !b.is {
		b.tokens, b.refilled = b.most, now
	}
	if refills := (now - b.refilled) / interval; now-b.refilled >= interval {
		b.tokens = int64(min(float64(b.most), float64(b.tokens)+float64(refills)*float64(refill)))
		b.refilled += refills * interval
	}
	left := b.tokens - take
	if denies := b.tokens == 0 || !v.anyLeft && left < 0; denies && (take > 0 || v.anyCost) {
		s.writeBucket(v, -1, b.refilled+interval, b.most)
		return nil
	}
	if left > largestToken || left < -largestToken {
		return ErrOverflow
	}
	if err := s.keepBucket(v, b, left, math.Ceil(float64(b.most-left)/float64(refill))*float64(interval)); err != nil {
		return err
	}
	s.writeBucket(v, left, b.refilled+interval, b.most)
	return nil
}

// upstashBucketLeft is asked with the most tokens; the reply is what is left, and when the bucket was refilled, -1 for never.
func (s *session) upstashBucketLeft(v upstashVersion, keys, args [][]byte) error {
	most, err := ArgumentInt(args[0])
	if err != nil {
		return err
	}
	b, err := s.holdBucket(keys, most)
	if err != nil {
		return err
	}
	defer s.counters.Release()
	if !b.is {
		b.tokens, b.refilled = b.most, -1
	}
	s.writeBucket(v, b.tokens, b.refilled, b.most)
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
	if err := s.hold(append(b.keys[:], keys[1:]...)); err != nil {
		return b, err
	}
	if b.most, err = s.upstashTokens(keys[1:], most); err != nil {
		s.counters.Release()
		return b, err
	}
	tokens, is := s.counters.Get(s.millis, b.keys[0])
	refilled, was := s.counters.Get(s.millis, b.keys[1])
	b.is, b.tokens, b.refilled = is && was, tokens.Value, refilled.Value
	return b, nil
}

// keepBucket writes a bucket, which expires once it is full: in so many milliseconds. One that is full already stays as long
// as it would have, or goes.
func (s *session) keepBucket(v upstashVersion, b tokenBucket, left int64, life float64) error {
	if life > math.MaxInt64/2 {
		return ErrExpireTime
	}
	for i, value := range []int64{left, b.refilled} {
		to := CounterSetting{Counter: Counter{Value: value}, Keep: life <= 0 && !v.shortLife}
		if !to.Keep {
			to.Expires = max(s.millis+int64(life), 1) // not after now: it goes
		}
		if _, _, _, err := s.counters.Set(s.millis, b.keys[i], to); err != nil {
			return CounterFailure(err)
		}
	}
	return nil
}

func (s *session) writeBucket(v upstashVersion, left, at, most int64) {
	switch {
	case v.onlyLeft:
		s.out.Int(left)
	case v.onlyValue:
		s.writePair(left, at)
	default:
		s.out.Array(3)
		s.out.Int(left)
		s.out.Int(at)
		s.out.Int(most)
	}
}

// upstashUsed replies as GET, and 0 where there is no counter.
func (s *session) upstashUsed(_ upstashVersion, keys, _ [][]byte) error {
	if err := s.hold(keys[:1]); err != nil {
		return err
	}
	defer s.counters.Release()
	c, ok := s.counters.Get(s.millis, keys[0])
	if !ok {
		s.out.Int(0)
		return nil
	}
	return s.writeValue(c, ok)
}

// upstashReset removes the counters whose keys fit a pattern, and those with the times of their buckets.
func (s *session) upstashReset(_ upstashVersion, keys, _ [][]byte) error {
	if _, err := s.removeAll(keys[0], refilledSuffix); err != nil {
		return err
	}
	s.out.Null()
	return nil
}
