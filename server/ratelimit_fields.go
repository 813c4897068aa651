package server

import (
	"encoding/base64"
	"math/bits"
	"net/http"
	"strconv"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/policy"
)

// The fields of draft-ietf-httpapi-ratelimit-headers-11, lists of structured fields
// (RFC 9651). They are spelled as there and not as net/http would, since people search
// what curl prints; names of fields have no case on the wire.
const (
	rateLimitField  = "RateLimit"
	ratePolicyField = "RateLimit-Policy"
)

// setRateLimit tells of the limits that are enforced:
//
//	RateLimit-Policy: "login";q=5;w=60     at most 5 in any 60 s
//	RateLimit: "login";r=3;t=12            3 are left; in 12 s all are there again
//
// Of a limit that denied, t is the time until it would not, as in Retry-After. The
// limit of several keys is told apart by pk, the key. scratch is returned for use again.
func setRateLimit(h http.Header, d *policy.Decision, scratch []byte) []byte {
	b := scratch[:0]
	for i := range d.Results {
		if r := &d.Results[i]; r.Mode == policy.Enforce {
			b = startItem(b, 0, r.Name)
			b = append(b, ";q="...)
			b = strconv.AppendUint(b, r.Limit.Burst, 10)
			b = append(b, ";w="...)
			b = strconv.AppendInt(b, wholeSecondsUp(interval(r.Limit)), 10)
			b = appendPartition(b, d.Results, i)
		}
	}
	if len(b) == 0 {
		return b
	}
	second := len(b)
	for i := range d.Results {
		if r := &d.Results[i]; r.Mode == policy.Enforce {
			b = startItem(b, second, r.Name)
			b = append(b, ";r="...)
			b = strconv.AppendUint(b, r.Remaining, 10)
			t := r.Reset
			if !r.Allowed {
				t = r.RetryAfter
			}
			if t > 0 { // all of the burst is there: nothing to wait for
				b = append(b, ";t="...)
				b = strconv.AppendInt(b, wholeSecondsUp(t), 10)
			}
			b = appendPartition(b, d.Results, i)
		}
	}
	text := string(b)
	values := [2]string{text[:second], text[second:]}
	h[ratePolicyField] = values[:1:1]
	h[rateLimitField] = values[1:]
	return b
}

// startItem begins an item of a list that starts at from. The name is a string of the
// list; those of limits have no character to escape.
func startItem(b []byte, from int, name string) []byte {
	if len(b) > from {
		b = append(b, ", "...)
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
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

func wholeSecondsUp(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
