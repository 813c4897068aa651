package resp

import (
	"math"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/resp/argument"
)

// throttle is CL.THROTTLE: 1 if it is limited, the burst, what remains of it, the seconds until the
// request would pass (-1: it passed, or never will), and those until the whole burst is there.
func (s *session) throttle(args [][]byte) error {
	if len(args) > 6 {
		return argument.ErrSyntax
	}
	var numbers [4]int64 // max_burst, count, period, quantity
	numbers[3] = 1
	for i, arg := range args[2:] {
		n, err := argument.Int(arg)
		if err != nil {
			return err
		}
		if mayBeZero := i == 0 || i == 3; n < 0 || n == 0 && !mayBeZero {
			return argument.Wrong(api.CodeInvalidLimit, "limit", "CL.THROTTLE needs max_burst and quantity from 0, count and period from 1")
		}
		numbers[i] = n
	}
	const longest = math.MaxInt64 / int64(time.Second)
	if numbers[2] > longest || numbers[0] == math.MaxInt64 {
		return argument.Wrong(api.CodeInvalidLimit, "limit", "CL.THROTTLE: period or max_burst is too large")
	}
	r, err := s.Bucket(args[1], admit.Limit{N: uint64(numbers[1]), Per: time.Duration(numbers[2]) * time.Second, Burst: uint64(numbers[0]) + 1, Algorithm: admit.GCRA}, uint64(numbers[3]), false)
	if err != nil {
		return err
	}
	retry := int64(-1)
	if !r.Allowed && !r.Never {
		retry = wholeUnits(r.RetryAfter, time.Second)
	}
	s.out.Array(5)
	if r.Allowed {
		s.out.Int(0)
	} else {
		s.out.Int(1)
	}
	s.out.Uint(r.Limit.Burst)
	s.out.Uint(r.Remaining)
	s.out.Int(retry)
	s.out.Int(wholeUnits(r.Reset, time.Second))
	return nil
}
