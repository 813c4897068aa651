package denials

import (
	"math"
	"math/bits"
	"time"

	"github.com/weir-counter/weir/limit"
)

// Enough is the smallest limit that would have let the request pass, with the admissions that were before it: a larger
// burst, in the same interval, and of a token bucket at the same rate. What would be more than package limit takes is
// the most.
func (r *Rule) Enough() limit.Limit {
	l := r.Limit
	used := l.Burst - min(r.Remaining, l.Burst)
	known := uint64(0)
	for _, a := range r.Known {
		known += a.N
	}
	if l.Algorithm != limit.GCRA { // whose bucket may have more in it than it lets use
		used = max(used, known)
	}
	burst := min(used+min(r.N, limit.MaxBurst), limit.MaxBurst)
	switch {
	case l.Algorithm == limit.GCRA:
		return limit.Limit{N: l.N, Per: l.Per, Burst: burst, Algorithm: l.Algorithm}
	case l.Burst == l.N:
		return limit.Limit{N: burst, Per: l.Per, Burst: burst, Algorithm: l.Algorithm}
	}
	// The rate goes up as the burst does, rounded up: the interval is no longer.
	n := uint64(math.MaxUint64)
	if hi, lo := bits.Mul64(l.N, burst); hi < l.Burst {
		rest := uint64(0)
		if n, rest = bits.Div64(hi, lo, l.Burst); rest > 0 {
			n++
		}
	}
	return limit.Limit{N: min(n, mostPer(l.Per)), Per: l.Per, Burst: burst, Algorithm: l.Algorithm}
}

// mostPer is the most that package limit takes in a period.
func mostPer(per time.Duration) uint64 {
	return uint64(math.Ceil(per.Seconds() * limit.MaxRate))
}
