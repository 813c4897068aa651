// Package ratelimitfields writes the header fields that tell clients of their
// limits: RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11
// (May 2026), lists of structured fields (RFC 9651), and Retry-After (RFC 9110).
//
//	RateLimit-Policy: "login";q=5;w=60, "api";q=1000;w=3600
//	RateLimit: "login";r=4;t=48, "api";r=733;t=1210
//	Retry-After: 48
//
// The fields know whole seconds only. The parameters q and w are the limit and its period, or a multiple of both that is a whole
// number of seconds: 10 per 100 ms is q=100;w=1, the same rate. So a client that obeys them gets all that the limit
// admits. A burst that is not q is weir-burst: 10 of these 100. r is what may pass at once now. t is when the whole
// burst is there again, rounded up.
//
// pk, a hash of the key that is counted, distinguishes members of one name: the key itself may be long, and not for
// the client to know.
package ratelimitfields

import (
	"crypto/sha256"
	"encoding/base64"
	"math"
	"math/bits"
	"net/http"
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

// RetryAfter is the value of a Retry-After field: d in seconds, at least 1, since a client that comes back at once
// comes back too early.
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

// appendLimit appends what is left of a limit to dst, the list so far or nothing.
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

// A Member is one limit of a request, as clients see it.
type Member struct {
	Name      string
	Key       string        // that is counted; the fields have a hash of it at most
	Quota     uint64        // so many
	Window    time.Duration // in this time
	Burst     uint64        // and so many at once; 0: as many as Quota
	Remaining uint64        // now
	Reset     time.Duration // until the whole quota is there again
}

// List is the limits of one request. The zero List is empty; its memory is used again
// after Reset.
type List struct {
	members          []Member
	policies, limits []byte
}

// Reset empties the list.
func (l *List) Reset() {
	clear(l.members) // let go of the keys
	l.members = l.members[:0]
}

// Add adds a limit. Of two with one name and key the later stands: the draft has no
// place for both, and it was decided with what the earlier took.
func (l *List) Add(m Member) {
	if m.Burst == 0 {
		m.Burst = m.Quota
	}
	for i := range l.members {
		if have := &l.members[i]; have.Name == m.Name && have.Key == m.Key {
			*have = m
			return
		}
	}
	l.members = append(l.members, m)
}

// Write adds the members to the fields RateLimit-Policy and RateLimit of h, none for an empty list. wait is what
// Retry-After says of a denial, else 0. The draft asks that t does not go beyond it.
func (l *List) Write(h http.Header, wait time.Duration) {
	if len(l.members) == 0 {
		return
	}
	policies, limits := l.Texts(wait)
	if h[Policy] != nil || h[Limit] != nil {
		add(h, Policy, string(policies))
		add(h, Limit, string(limits))
		return
	}
	l.policies = append(policies, limits...) // both fields have one piece of memory
	text, size := string(l.policies), len(policies)
	values := []string{text[:size], text[size:]}
	h[Policy], h[Limit] = values[:1:1], values[1:]
}

// Texts is the values that Write adds; both are empty for an empty list. They are valid until the next call.
func (l *List) Texts(wait time.Duration) (policies, limits []byte) {
	policies, limits = l.policies[:0], l.limits[:0]
	for i := range l.members {
		m := &l.members[i]
		policies = l.appendKey(appendPolicy(policies, m.Name, m.Quota, m.Burst, m.Window), i)
		t, r := secondsUp(m.Reset), m.Remaining
		if wait > 0 { // Retry-After counts
			t = min(t, secondsUp(wait))
		}
		limits = l.appendKey(appendLimit(limits, m.Name, r, t), i)
	}
	l.policies, l.limits = policies, limits
	return policies, limits
}

// appendKey tells the key of the member at a place if another one has its name.
func (l *List) appendKey(b []byte, at int) []byte {
	for i := range l.members {
		if i != at && l.members[i].Name == l.members[at].Name {
			return appendPartition(b, l.members[at].Key)
		}
	}
	return b
}

// add is h.Add for a name that is canonical.
func add(h http.Header, name, value string) { h[name] = append(h[name], value) }

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

// scale is n * by / over, rounded down, or the largest number. over is not 0.
func scale(n, by, over uint64) uint64 {
	high, low := bits.Mul64(n, by)
	if high >= over {
		return math.MaxUint64
	}
	quotient, _ := bits.Div64(high, low, over)
	return quotient
}
