package scripts

import (
	"math"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/resp/argument"
)

// traefikScripts are those of the rateLimit middleware of Traefik v3.4 and newer: a token bucket. Its arguments
// are tokens per microsecond, burst, seconds until the key expires, the time in microseconds, and the longest delay in
// microseconds; its reply is "true", the delay in microseconds, and the tokens that remain. A request whose delay is
// longer than the longest was not admitted.
func traefikScripts() []*Script {
	const library = "Traefik v3.4 to v3.7 (rateLimit)"
	return []*Script{
		{library: library, SHA: "a82138cfb0cc9aa6e05d666c1f912744aefbe711", keys: 1, args: 5, run: (*Session).traefik},
		{library: library, SHA: "3d93177e9b9a18f241edddc8d7e7fa1c47ae4eb6", keys: 1, args: 5, run: (*Session).traefik},
	}
}

// traefik admits a request now or not at all: it has none wait, as Traefik would for half the time of a token.
func (s *Session) traefik(keys, args [][]byte) error {
	perMicrosecond, err := readNumber(args[0])
	if err != nil {
		return err
	}
	burst, err := argument.Count(args[1], "burst", 1)
	if err != nil {
		return err
	}
	longest, err := readNumber(args[4])
	if err != nil {
		return err
	}
	l, ok := limitOfRate(perMicrosecond * 1e6)
	if !ok {
		return argument.Wrong(api.CodeInvalidLimit, "limit", "rate of "+argument.Clip(args[0])+" per microsecond: must be more than 0")
	}
	l.Burst = burst
	r, err := s.Door.Bucket(keys[0], l, 1, false)
	if err != nil {
		return err
	}
	tokens := float64(burst) - r.Reset.Seconds()/l.Per.Seconds()*float64(l.N)
	delay := 0.0
	if !r.Allowed {
		const more = 1 // Traefik denies what is longer, and has cut fractions off the longest delay
		delay = max(r.RetryAfter.Seconds()*1e6, longest+more)
	}
	s.Out.Array(3)
	s.Out.Bulk("true")
	s.writeNumber(delay)
	s.writeNumber(tokens)
	return nil
}

// limitOfRate is a limit of so many per second: a whole number per second, minute, hour or day if it is nearly that,
// else one in an interval, of whole nanoseconds, that is not shorter.
func limitOfRate(perSecond float64) (l admit.Limit, ok bool) {
	const nearly = 1e-12
	l.Algorithm = admit.GCRA
	for _, l.Per = range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		n := perSecond * l.Per.Seconds()
		if whole := math.Round(n); whole >= 1 && math.Abs(n-whole) <= nearly*whole {
			l.N = uint64(min(whole, math.MaxInt64/2))
			return l, true
		}
	}
	if l.N, l.Per = 1, nanoseconds(1/perSecond); l.Per >= time.Millisecond {
		return l, perSecond > 0
	}
	l.N, l.Per = uint64(min(perSecond, math.MaxInt64/2)), time.Second
	return l, true
}
