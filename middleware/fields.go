package middleware

import (
	"net/http"

	"github.com/weir-counter/weir/internal/ratelimitfields"
)

// writeFields adds the limits to the lists of the header: another Middleware around
// this one has its own in there.
func (k *work) writeFields(h http.Header) {
	d := &k.decision
	k.field = k.field[:0]
	for i := range d.Results {
		if r := &d.Results[i]; !r.Shadow {
			k.field = ratelimitfields.AppendPolicy(k.field, r.Limit, r.Quota, r.Window)
		}
	}
	if len(k.field) == 0 {
		return
	}
	add(h, ratelimitfields.Policy, string(k.field))
	k.field = k.field[:0]
	for i := range d.Results {
		r := &d.Results[i]
		if r.Shadow {
			continue
		}
		reset := r.Reset
		if !d.Allowed && !d.Never {
			reset = min(reset, d.RetryAfter) // Retry-After must not end before
		}
		k.field = ratelimitfields.AppendLimit(k.field, r.Limit, r.Remaining, reset)
	}
	add(h, ratelimitfields.Limit, string(k.field))
}

// writeRetryAfter says when to come back, unless the request can never pass.
func (k *work) writeRetryAfter(h http.Header) {
	if !k.decision.Never {
		h.Set("Retry-After", ratelimitfields.RetryAfter(k.decision.RetryAfter))
	}
}

// add is h.Add for a name that is canonical.
func add(h http.Header, name, value string) { h[name] = append(h[name], value) }
