package middleware

import (
	"net/http"

	"github.com/weir-counter/weir/internal/ratelimitfields"
)

// writeFields adds the limits to the lists of the header: another Middleware around
// this one has its own in there.
func (k *work) writeFields(h http.Header) {
	d := &k.decision
	k.fields.Reset()
	for i := range d.Results {
		if r := &d.Results[i]; !r.Shadow {
			k.fields.Add(ratelimitfields.Member{
				Name: r.Limit, Key: r.Key, Quota: r.Quota, Window: r.Window, Burst: r.Burst, Remaining: r.Remaining, Reset: r.Reset,
			})
		}
	}
	wait := d.RetryAfter
	if d.Never {
		wait = 0 // no Retry-After is told
	}
	k.fields.Write(h, wait)
}

// writeRetryAfter says when to come back, unless the request can never pass.
func (k *work) writeRetryAfter(h http.Header) {
	if !k.decision.Never {
		h.Set("Retry-After", ratelimitfields.RetryAfter(k.decision.RetryAfter))
	}
}
