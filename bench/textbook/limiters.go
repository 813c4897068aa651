package textbook

import "time"

// Limiter decides whether a request may pass: at most N in a period. Times are durations since any fixed moment and
// never decrease. Like the limiters in the texts, a Limiter is for a single goroutine.
type Limiter interface {
	Allow(at time.Duration) bool
}

// LimiterDesign is one way to build a Limiter.
type LimiterDesign struct {
	Name string
	New  func(n int, period time.Duration) Limiter
}

// LimiterDesigns are all limiters of this package.
func LimiterDesigns() []LimiterDesign {
	return []LimiterDesign{
		{"counter per period", func(n int, period time.Duration) Limiter { return &Period{n: n, period: period} }},
		{"minimum gap", func(n int, period time.Duration) Limiter { return NewLookBack(1, period/time.Duration(n)) }},
		{"look back 10", func(n int, period time.Duration) Limiter { return NewLookBack(10, 10*period/time.Duration(n)) }},
		{"sliding log", func(n int, period time.Duration) Limiter { return NewLookBack(n, period) }},
		{"sliding window counter", func(n int, period time.Duration) Limiter { return &SlidingCounter{n: n, period: period} }},
		{"token bucket", func(n int, period time.Duration) Limiter { return NewTokenBucket(n, period) }},
	}
}

// Period counts in periods that begin at fixed times. It admits up to 2N in one
// period's length: N at the end of one and N at the beginning of the next.
//
// Cost: O(1); memory 16 bytes.
type Period struct {
	n      int
	period time.Duration

	current time.Duration // number of the period
	used    int
}

// Allow implements Limiter.
func (p *Period) Allow(at time.Duration) bool {
	if now := at / p.period; now != p.current {
		p.current, p.used = now, 0
	}
	if p.used == p.n {
		return false
	}
	p.used++
	return true
}

// LookBack remembers the last k admissions and admits if the oldest is at least
// gap ago. With k = 1 it is the minimum gap, with k = N and a whole period the
// sliding log, which is exact.
//
// Cost: O(1); memory 8 bytes for each admission.
type LookBack struct {
	gap  time.Duration
	last []time.Duration // a circle of the newest k admissions
	next int             // place of the oldest
}

// NewLookBack returns a LookBack.
func NewLookBack(k int, gap time.Duration) *LookBack {
	l := &LookBack{gap: gap, last: make([]time.Duration, k)}
	for i := range l.last {
		l.last[i] = -gap
	}
	return l
}

// Allow implements Limiter.
func (l *LookBack) Allow(at time.Duration) bool {
	if at-l.last[l.next] < l.gap {
		return false
	}
	l.last[l.next] = at
	l.next = (l.next + 1) % len(l.last)
	return true
}

// SlidingCounter adds to this period's number a share of the last period's number: the part that a sliding window still
// covers, if requests had come evenly. They do not, so it admits too much or too little.
//
// Cost: O(1); memory 24 bytes.
type SlidingCounter struct {
	n      int
	period time.Duration

	current time.Duration // number of the period
	used    int
	before  int // used in the period before
}

// Allow implements Limiter.
func (s *SlidingCounter) Allow(at time.Duration) bool {
	switch now := at / s.period; {
	case now == s.current+1:
		s.current, s.before, s.used = now, s.used, 0
	case now > s.current:
		s.current, s.before, s.used = now, 0, 0
	}
	covered := 1 - float64(at%s.period)/float64(s.period)
	if float64(s.before)*covered+float64(s.used)+1 > float64(s.n) {
		return false
	}
	s.used++
	return true
}

// TokenBucket holds up to N tokens and gains N per period; a request takes one.
// It admits up to 2N in one period's length: a full bucket and what flows in.
//
// Cost: O(1); memory 16 bytes.
type TokenBucket struct {
	tokens, most, rate float64 // rate: per nanosecond
	last               time.Duration
}

// NewTokenBucket returns a full bucket.
func NewTokenBucket(n int, period time.Duration) *TokenBucket {
	return &TokenBucket{tokens: float64(n), most: float64(n), rate: float64(n) / float64(period)}
}

// Allow implements Limiter.
func (b *TokenBucket) Allow(at time.Duration) bool {
	b.tokens = min(b.most, b.tokens+float64(at-b.last)*b.rate)
	b.last = at
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
