package ratelimitfields

import (
	"math"
	"math/bits"
	"time"
)

// longestExact is the longest window, in seconds, that is chosen to tell a limit exactly.
const longestExact = 60

// wholeSeconds is a limit of the same rate whose window is a whole number of seconds: the
// shortest multiple of window that is one, if it is not above longestExact. Else the window
// is longestExact, or the next whole second, and the quota is rounded down: the rate is then
// too low by less than 2 %, and one.
func wholeSeconds(quota uint64, window time.Duration) (q, w uint64) {
	if window <= 0 {
		return quota, 1
	}
	if window%time.Second == 0 {
		return quota, uint64(window / time.Second)
	}
	times := time.Second / gcd(window, time.Second) // windows that are whole seconds together
	w = secondsUp(window)
	if exact := window / (time.Second / times); exact <= longestExact {
		w = uint64(exact)
	} else if w < longestExact {
		w = longestExact
	}
	return scale(quota, w*uint64(time.Second), uint64(window)), w
}

func gcd(a, b time.Duration) time.Duration {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// available is what a limit admits until t seconds are over, when remaining is left now, and
// all of the burst after reset: burst again in each interval of window * burst / quota that
// has begun after reset and is over by then. It is more than remaining where such intervals
// are shorter than the second that t is rounded up to.
func available(m *Member, t uint64) uint64 {
	if m.Quota == 0 || m.Burst == 0 || m.Window <= 0 || t > math.MaxInt64/uint64(time.Second) {
		return m.Remaining
	}
	interval := scale(uint64(m.Window), m.Burst, m.Quota)
	after := time.Duration(t)*time.Second - max(0, m.Reset)
	if interval == 0 || after < 0 {
		return m.Remaining
	}
	high, low := bits.Mul64(uint64(after)/interval, m.Burst)
	sum, carry := bits.Add64(low, m.Remaining, 0)
	if high > 0 || carry > 0 {
		return math.MaxUint64
	}
	return sum
}

// scale is n * by / over, rounded down, or the largest number. over is not 0.
func scale(n, by, over uint64) uint64 {
	high, low := bits.Mul64(n, by)
	if high >= over {
		return math.MaxUint64
	}
	quotient, _ := bits.Div64(high, low, over)
	return quotient
}
