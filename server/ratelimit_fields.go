package server

import (
	"encoding/base64"
	"math/bits"
	"net/http"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/policy"
)

// setRateLimit tells of the limits that are enforced:
//
//	RateLimit-Policy: "login";q=5;w=60     at most 5 in any 60 s
//	RateLimit: "login";r=3;t=12            3 are left; in 12 s all are there again
//
// A denial's t does not go beyond its Retry-After. One limit of several keys is told
// apart by pk, the key. What is appended to scratch is returned, for use again.
func setRateLimit(h http.Header, d *policy.Decision, scratch []byte) []byte {
	b := scratch[:0]
	for i := range d.Results {
		if r := &d.Results[i]; r.Mode == policy.Enforce {
			b = ratelimitfields.AppendPolicy(b, r.Name, r.Limit.Burst, interval(r.Limit))
			b = appendPartition(b, d.Results, i)
		}
	}
	if len(b) == 0 {
		return b
	}
	first := string(b)
	b = b[:0]
	for i := range d.Results {
		r := &d.Results[i]
		if r.Mode != policy.Enforce {
			continue
		}
		reset := r.Reset
		if !d.Allowed {
			reset = min(reset, d.RetryAfter)
		}
		b = ratelimitfields.AppendLimit(b, r.Name, r.Remaining, reset)
		b = appendPartition(b, d.Results, i)
	}
	values := [2]string{first, string(b)}
	h[ratelimitfields.Policy], h[ratelimitfields.Limit] = values[:1:1], values[1:]
	return b
}

// appendPartition tells the key when another result is of the same limit.
func appendPartition(b []byte, results []policy.Result, at int) []byte {
	for i := range results {
		if i != at && results[i].Name == results[at].Name {
			b = append(b, ";pk=:"...)
			b = base64.StdEncoding.AppendEncode(b, []byte(results[at].Key))
			return append(b, ':')
		}
	}
	return b
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
