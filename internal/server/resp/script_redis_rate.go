package resp

import (
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
)

// redisRateScripts returns the scripts of go-redis/redis_rate v9 and v10: GCRA. The arguments are burst, rate, period
// in seconds, and cost. The reply is how many were allowed and how many remain. Two times in seconds follow, as texts:
// until a retry (-1: allowed), and until the whole burst is available.
func redisRateScripts() []*Script {
	const library = "go-redis/redis_rate v9 and v10 (Allow, AllowN, AllowAtMost)"
	return []*Script{
		{library: library, SHA: "f52a5b566060d79fd321d695df55bc918339c4aa", keys: 1, args: 4, run: (*session).rateAllowN},
		{library: library, SHA: "054143318f521948424aa25df61d7f7ba835a9d7", keys: 1, args: 4, run: (*session).rateAllowAtMost},
	}
}

// rateLimit has the arguments of the scripts of redis_rate.
type rateLimit struct {
	limit admit.Limit
	none  bool // burst is 0: nothing can pass
	cost  uint64
}

func readRateLimit(args [][]byte) (l rateLimit, err error) {
	var numbers [2]uint64 // burst, rate
	for i := range numbers {
		if numbers[i], err = ArgumentCount(args[i], [2]string{"burst", "rate"}[i], uint64(i)); err != nil {
			return l, err
		}
	}
	period, err := readNumber(args[2])
	if err != nil {
		return l, err
	}
	l.limit = admit.Limit{N: numbers[1], Per: nanoseconds(period), Burst: max(numbers[0], 1), Algorithm: admit.GCRA}
	if l.limit.Per <= 0 {
		return l, WrongArgument(api.CodeInvalidLimit, "period", "period of "+ClipArgument(args[2])+" s: must be more than 0")
	}
	l.none = numbers[0] == 0
	l.cost, err = ArgumentCount(args[3], "cost", 0)
	return l, err
}

// interval is how long one admission takes to come back.
func (l *rateLimit) interval() float64 { return l.limit.Per.Seconds() / float64(l.limit.N) }

// rateAllowN takes cost, all or none.
func (s *session) rateAllowN(keys, args [][]byte) error {
	l, err := readRateLimit(args)
	if err != nil {
		return err
	}
	n := l.cost
	if l.none {
		n = 0
	}
	r, err := s.bucket(keys[0], l.limit, n, false)
	switch {
	case err != nil:
		return err
	case l.none && l.cost > 0:
		s.writeRateDenied(float64(l.cost)*l.interval(), r.Reset)
	case l.none:
		s.writeRateAllowed(0, 0, r.Reset)
	case r.Allowed:
		s.writeRateAllowed(l.cost, r.Remaining, r.Reset)
	case r.Never: // as if the burst were large enough for it
		s.writeRateDenied(r.Reset.Seconds()+float64(l.cost-l.limit.Burst)*l.interval(), r.Reset)
	default:
		s.writeRateDenied(r.RetryAfter.Seconds(), r.Reset)
	}
	return nil
}

// atMostTries is how often AllowAtMost asks again when others took what it had seen.
const atMostTries = 4

// rateAllowAtMost takes up to cost: it looks how many are left and takes them. If cost is more, it takes the fraction
// of a further one too, as Redis does. If others took some in between, it looks again, at most atMostTries times; then
// it denies.
func (s *session) rateAllowAtMost(keys, args [][]byte) error {
	l, err := readRateLimit(args)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		r, err := s.bucket(keys[0], l.limit, 1, true)
		if err != nil {
			return err
		}
		if l.none {
			s.writeRateDenied(l.interval(), r.Reset)
			return nil
		}
		if r.Allowed && l.cost == 0 {
			s.writeRateAllowed(0, r.Remaining, r.Reset)
			return nil
		}
		n := uint64(1) // if nothing was left, this is denied and counted as a denial
		if r.Allowed {
			n = min(l.cost, r.Remaining)
		}
		all := r.Allowed && r.Remaining < l.cost
		switch {
		case all:
			r, err = s.exhaust(keys[0], l.limit, n)
		case l.cost > 0:
			r, err = s.bucket(keys[0], l.limit, n, false)
		}
		if err != nil {
			return err
		}
		switch {
		case r.Allowed && all:
			s.writeRateAllowed(n, 0, time.Duration(float64(l.limit.Burst)*l.interval()*float64(time.Second)))
			return nil
		case r.Allowed:
			s.writeRateAllowed(n, r.Remaining, r.Reset)
			return nil
		case n == 1 || try == atMostTries:
			s.writeRateDenied(r.RetryAfter.Seconds(), r.Reset)
			return nil
		}
	}
}

func (s *session) writeRateAllowed(cost, remaining uint64, reset time.Duration) {
	s.out.Array(4)
	s.out.Uint(cost)
	s.out.Uint(remaining)
	s.writeNumber(-1)
	s.writeNumber(reset.Seconds())
}

func (s *session) writeRateDenied(retry float64, reset time.Duration) {
	s.out.Array(4)
	s.out.Int(0)
	s.out.Int(0)
	s.writeNumber(retry)
	s.writeNumber(reset.Seconds())
}
