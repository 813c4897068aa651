package resp

import (
	"bytes"
	"math"
	"slices"

	"github.com/weir-counter/weir/internal/engine/counters"
)

const upstashRatelimit = "@upstash/ratelimit 1.2 to 2.2, for one region"

// upstashScript is one script of @upstash/ratelimit, in one version.
type upstashScript struct {
	sha    string
	method func(s *session, version *upstashScript, keys [][]byte, n [5]int64) error
	keys   int // the keys that it needs; a bucket has one more, for the time of its refill
	args   int // the arguments that it needs, all of them whole numbers

	peeks     bool // it takes nothing
	onlyValue bool // the reply leaves out the limit
	onlyLeft  bool // the reply leaves out the limit and the time of the refill
	anyCost   bool // a request that takes nothing, or gives back, can be denied too
	anyLeft   bool // a bucket that is not empty allows any cost
	shortLife bool // a bucket that is full is removed at once
}

// upstashScripts returns the scripts of @upstash/ratelimit for one region: a fixed window, a sliding window that weighs
// the window before, and a token bucket. Since 2.0.8 a last key may name a counter whose value replaces the limit in
// the first argument.
func upstashScripts() (list []*Script) {
	const fixedArgs, slidingArgs, bucketArgs = 3, 4, 5
	windows := []upstashScript{
		{sha: "472e55443b62f60d0991028456c57815a387066d", method: (*session).upstashFixed, keys: 1, args: fixedArgs},
		{sha: "b2efc02798c8e9b471a10f9b1d5745db89923ff3", method: (*session).upstashFixed, keys: 1, args: fixedArgs},
		{sha: "40515c9dd0a08f8584f5f9b593935f6a87c1c1c3", method: (*session).upstashFixed, keys: 1, args: 1, peeks: true},
		{sha: "823cb2a5a902d69681244f5e28e5ebb8f2a89edd", method: (*session).upstashFixed, keys: 1, args: 1, peeks: true},
		{sha: "8c4c341934502aee132643ffbe58ead3450e5208", method: (*session).upstashUsed, keys: 1},
		{sha: "8e8f222ccae68b595ee6e3f3bf2199629a62b91a", method: (*session).upstashUsed, keys: 1},
		{sha: "eb82f0e853d2fc9a236fa9bfbe704fda6ac2fc36", method: (*session).upstashUsed, keys: 1},

		{sha: "e1391e429b699c780eb0480350cd5b7280fd9213", method: (*session).upstashSliding, keys: 2, args: slidingArgs, onlyValue: true, anyCost: true},
		{sha: "9b7842963bd73721f1a3011650c23c0010848ee3", method: (*session).upstashSliding, keys: 2, args: slidingArgs, onlyValue: true},
		{sha: "977fb636fb5ceb7e98a96d1b3a1272ba018efdae", method: (*session).upstashSliding, keys: 2, args: slidingArgs},
		{sha: "74740bb3d7792848093cdef586b6b6037c455fd6", method: (*session).upstashSliding, keys: 2, args: slidingArgs},
		{sha: "ee3a3265fad822f83acad23f8a1e2f5c0b156b03", method: (*session).upstashSliding, keys: 2, args: 3, peeks: true},
		{sha: "7ca36169e0fc9caedd81b4eef8e99854c157f9b5", method: (*session).upstashSliding, keys: 2, args: 3, peeks: true},
		{sha: "65a73ac5a05bf9712903bc304b77268980c1c417", method: (*session).upstashSlidingUsed, keys: 2, args: 2},
	}
	buckets := []upstashScript{
		{sha: "5bece90aeef8189a8cfd28995b479529e270b3c6", method: (*session).upstashBucket, keys: 1, args: bucketArgs, onlyValue: true, anyCost: true, anyLeft: true, shortLife: true},
		{sha: "d1f857ebbdaeca90ccd2cd4eada61d7c8e5db1ca", method: (*session).upstashBucket, keys: 1, args: bucketArgs, onlyValue: true, anyLeft: true},
		{sha: "b35c5bc0b7fdae7dd0573d4529911cabaf9d1d89", method: (*session).upstashBucket, keys: 1, args: bucketArgs, anyLeft: true},
		{sha: "a9873a8026b509e99a49a0e5a2049756c693c384", method: (*session).upstashBucket, keys: 1, args: bucketArgs, anyLeft: true},
		{sha: "d60be5bd3d83482ae229309f1f7425424f891204", method: (*session).upstashBucket, keys: 1, args: bucketArgs},
		{sha: "67f84c3691a7a22a78a9a3761b836ea40ef9dd0d", method: (*session).upstashBucket, keys: 1, args: 1, peeks: true, onlyLeft: true},
		{sha: "a15be2bb1db2a15f7c82db06146f9d08983900d0", method: (*session).upstashBucket, keys: 1, args: 1, peeks: true, onlyValue: true},
		{sha: "deb03663e8af5a968deee895dd081be553d2611b", method: (*session).upstashBucket, keys: 1, args: 1, peeks: true},
		{sha: "40daf4a441df736f5c99f8b77bbe176c909e5de4", method: (*session).upstashBucket, keys: 1, args: 1, peeks: true},
	}
	for i, one := range slices.Concat(windows, buckets) {
		suffix := ""
		if i >= len(windows) {
			suffix = refilledSuffix
		}
		list = append(list, &Script{
			library: upstashRatelimit, SHA: one.sha, keys: one.keys, args: one.args, extraKey: one.args > 0, suffix: suffix, holds: true,
			run: func(s *session, keys, args [][]byte) error {
				n, err := readInts(args[:one.args])
				if err != nil {
					return err
				}
				return one.method(s, &one, keys, n)
			},
		})
	}
	return append(list, &Script{library: upstashRatelimit, SHA: "54bd274ddc59fb3be0f42deee2f64322a10e2b50", keys: 1, pattern: true, run: (*session).upstashReset})
}

// upstashFixed takes the limit, the window in milliseconds, and what to add.
func (s *session) upstashFixed(version *upstashScript, keys [][]byte, n [5]int64) error {
	tokens := s.upstashTokens(keys[1:], n[0])
	if version.peeks {
		c, _ := s.counters.Get(s.millis, keys[0])
		s.out.Ints(tokens-c.Value, tokens)
		return nil
	}
	used, err := s.addWithin(keys[0], n[2], n[1])
	if err != nil {
		return err
	}
	s.out.Ints(used, tokens)
	return nil
}

// slidingWindow returns the requests of the current window, and how many of the window before still count.
func (s *session) slidingWindow(keys [][]byte, now, window int64) (used, weighed int64, err error) {
	const longest = math.MaxInt64 / 8
	if now < 0 || window < 1 || window > longest {
		return 0, 0, NewReplyError("ERR", "a sliding window needs a time from 0 and a window from 1 ms")
	}
	current, _ := s.counters.Get(s.millis, keys[0])
	before, _ := s.counters.Get(s.millis, keys[1])
	passed := float64(now%window) / float64(window)
	return current.Value, int64(math.Floor((1 - passed) * float64(before.Value))), nil
}

// upstashSliding takes the limit, the time and the window in milliseconds, and what to add. The keys are the counters
// of this window and the one before.
func (s *session) upstashSliding(version *upstashScript, keys [][]byte, n [5]int64) error {
	used, weighed, err := s.slidingWindow(keys, n[1], n[2])
	if err != nil {
		return err
	}
	tokens, left := s.upstashTokens(keys[2:], n[0]), int64(-1)
	switch {
	case version.peeks:
		left = tokens - (weighed + used)
	case n[3] <= 0 && !version.anyCost || weighed+used < tokens:
		used, err := s.addWithin(keys[0], n[3], n[2]*2+1000) // until it is no longer the window before
		if err != nil {
			return err
		}
		left = tokens - (used + weighed)
	}
	if version.onlyValue {
		s.out.Int(left)
	} else {
		s.out.Ints(left, tokens)
	}
	return nil
}

// upstashSlidingUsed takes the time and the window in milliseconds.
func (s *session) upstashSlidingUsed(_ *upstashScript, keys [][]byte, n [5]int64) error {
	used, weighed, err := s.slidingWindow(keys, n[0], n[1])
	if err != nil {
		return err
	}
	s.out.Int(weighed + used)
	return nil
}

// upstashTokens returns the limit: the value of the counter if it exists, else tokens.
func (s *session) upstashTokens(keys [][]byte, tokens int64) int64 {
	for _, key := range keys {
		if c, ok := s.counters.Get(s.millis, key); ok {
			return c.Value
		}
	}
	return tokens
}

// addWithin adds to a counter. A new counter expires after life milliseconds.
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
		s.counters.Expire(s.millis, key, max(s.millis+life, 1), counters.Always)
	}
	return value, nil
}

// refilledSuffix ends the key of the counter with the time of a bucket's last refill, in milliseconds of the client's
// clock. The bucket's own key has its tokens.
const refilledSuffix = ":refilledAt"

// largestToken bounds the numbers of a bucket, so that floats, which Redis uses, hold them exactly.
const largestToken = 1 << 53

// upstashBucket takes the most tokens, the milliseconds between refills, the tokens of a refill, the time in
// milliseconds, and what to take. A bucket that does not exist is full; a peek then replies with -1 as the time of its
// refill.
func (s *session) upstashBucket(version *upstashScript, keys [][]byte, n [5]int64) error {
	for _, one := range n {
		if !version.peeks && (one < -largestToken || one > largestToken) {
			return ErrNotInteger
		}
	}
	interval, refill, now, take := n[1], n[2], n[3], n[4]
	if !version.peeks && (interval < 1 || refill < 1 || now < 0) {
		return NewReplyError("ERR", "a token bucket needs an interval from 1 ms, a refill of 1 token or more, and a time from 0")
	}
	most, refillKey := s.upstashTokens(keys[1:], n[0]), append(bytes.Clone(keys[0]), refilledSuffix...)
	counter, is := s.counters.Get(s.millis, keys[0])
	at, was := s.counters.Get(s.millis, refillKey)
	tokens, refilled := counter.Value, at.Value
	switch {
	case is && was:
	case version.peeks:
		tokens, refilled = most, -1
	default:
		tokens, refilled = most, now
	}
	if version.peeks {
		s.writeBucket(version, tokens, refilled, most)
		return nil
	}
	if refills := (now - refilled) / interval; now-refilled >= interval {
		tokens = int64(min(float64(most), float64(tokens)+float64(refills)*float64(refill)))
		refilled += refills * interval
	}
	left := tokens - take
	if denies := tokens == 0 || !version.anyLeft && left < 0; denies && (take > 0 || version.anyCost) {
		s.writeBucket(version, -1, refilled+interval, most)
		return nil
	}
	if left > largestToken || left < -largestToken {
		return ErrOverflow
	}
	life := math.Ceil(float64(most-left)/float64(refill)) * float64(interval)
	if life > math.MaxInt64/2 {
		return ErrExpireTime
	}
	// A bucket expires when it is full. One that is full already keeps its expiry time, or is removed (shortLife).
	to := counters.Setting{Keep: life <= 0 && !version.shortLife}
	if !to.Keep {
		to.Expires = max(s.millis+int64(life), 1)
	}
	for i, key := range [][]byte{keys[0], refillKey} {
		to.Value = []int64{left, refilled}[i]
		if _, err := s.put(key, to); err != nil {
			return err
		}
	}
	s.writeBucket(version, left, refilled+interval, most)
	return nil
}

func (s *session) writeBucket(version *upstashScript, left, at, most int64) {
	switch {
	case version.onlyLeft:
		s.out.Int(left)
	case version.onlyValue:
		s.out.Ints(left, at)
	default:
		s.out.Ints(left, at, most)
	}
}

// upstashUsed replies as GET does, and with 0 if there is no counter.
func (s *session) upstashUsed(_ *upstashScript, keys [][]byte, _ [5]int64) error {
	c, ok := s.counters.Get(s.millis, keys[0])
	if !ok {
		s.out.Int(0)
		return nil
	}
	return s.writeValue(c, ok)
}

// upstashReset removes the counters whose keys match a pattern, and the times of their buckets.
func (s *session) upstashReset(keys, _ [][]byte) error {
	if _, err := s.removeAll(keys[0], refilledSuffix); err != nil {
		return err
	}
	s.out.Null()
	return nil
}
