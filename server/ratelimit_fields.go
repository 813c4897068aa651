package server

import (
	"math/bits"
	"net/http"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/policy"
)

// setRateLimit tells of the limits that are enforced, with the memory of list.
func setRateLimit(h http.Header, d *policy.Decision, list *ratelimitfields.List) {
	list.Reset()
	for i := range d.Results {
		if r := &d.Results[i]; r.Mode == policy.Enforce {
			list.Add(ratelimitfields.Member{
				Name: r.Name, Key: r.Key, Quota: r.Limit.Burst, Window: interval(r.Limit), Remaining: r.Remaining, Reset: r.Reset,
			})
		}
	}
	list.Write(h, d.RetryAfter)
}

// interval is the time that has at most Burst admissions: Per * Burst / N, rounded up.
func interval(l weir.Limit) time.Duration {
	if l.N == l.Burst {
		return l.Per
	}
	hi, lo := bits.Mul64(uint64(l.Per), l.Burst)
	t, rest := bits.Div64(hi, lo, l.N) // a limit takes at most 100 years to fill
	if rest > 0 {
		t++
	}
	return time.Duration(t)
}
