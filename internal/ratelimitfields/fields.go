// Package ratelimitfields writes the header fields that tell clients of their
// limits: RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11
// (May 2026), lists of structured fields (RFC 9651), and Retry-After (RFC 9110).
//
//	RateLimit-Policy: "login";q=5;w=60, "api";q=1000;w=3600
//	RateLimit: "login";r=4;t=48, "api";r=733;t=1210
//	Retry-After: 48
//
// The fields know whole seconds only. q and w are the limit and its period, or a multiple
// of both that is a whole number of seconds: 10 per 100 ms is q=100;w=1, the same rate, so
// that a client that paces itself by them gets all that the limit admits. A burst that is
// not q stands beside them, as weir-burst: 10 of those 100. r is what there is until t is over, and
// t is rounded up.
//
// Members of one name are told apart by pk, a hash of the key that is counted: the
// key itself may be long, and not for the client to know.
package ratelimitfields

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"
)

// The fields' names, as Go's http.Header writes them.
const (
	Policy = "Ratelimit-Policy"
	Limit  = "Ratelimit"
)

// maxInteger is the largest integer of a structured field.
const maxInteger = 999_999_999_999_999

// RetryAfter is the value of a Retry-After field: d in seconds, at least 1, for whoever
// is told to come back at once comes back too early.
func RetryAfter(d time.Duration) string {
	return strconv.FormatUint(max(1, secondsUp(d)), 10)
}

// appendPolicy appends a limit to dst, the list so far or nothing: quota per window, with
// bursts of at most burst.
func appendPolicy(dst []byte, name string, quota, burst uint64, window time.Duration) []byte {
	q, w := wholeSeconds(quota, window)
	dst = appendName(dst, name)
	dst = appendParameter(dst, ";q=", q)
	dst = appendParameter(dst, ";w=", w)
	if burst != q {
		dst = appendParameter(dst, ";weir-burst=", burst)
	}
	return dst
}

// appendLimit appends what is left of a limit to dst, the list so far or nothing: there is
// remaining until seconds are over.
func appendLimit(dst []byte, name string, remaining, seconds uint64) []byte {
	dst = appendName(dst, name)
	dst = appendParameter(dst, ";r=", remaining)
	return appendParameter(dst, ";t=", seconds)
}

// appendPartition appends the pk of a key: 72 bits of its SHA-256.
func appendPartition(dst []byte, key string) []byte {
	sum := sha256.Sum256([]byte(key))
	dst = base64.StdEncoding.AppendEncode(append(dst, ";pk=:"...), sum[:9])
	return append(dst, ':')
}

// appendName begins a member of the list with a string. What a string may not hold
// becomes a question mark: names of limits have no such bytes.
func appendName(dst []byte, name string) []byte {
	if len(dst) > 0 {
		dst = append(dst, ", "...)
	}
	dst = append(dst, '"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c > '~':
			dst = append(dst, '?')
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

func appendParameter(dst []byte, name string, value uint64) []byte {
	return strconv.AppendUint(append(dst, name...), min(value, maxInteger), 10)
}

func secondsUp(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64((d-1)/time.Second) + 1
}
