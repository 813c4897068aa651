package server

import (
	"net/http"

	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/policy"
)

// setRateLimit tells of the limits that are enforced, with the memory of list.
func setRateLimit(h http.Header, d *policy.Decision, list *ratelimitfields.List) {
	list.Reset()
	for i := range d.Results {
		if r := &d.Results[i]; r.Mode == policy.Enforce {
			list.Add(ratelimitfields.Member{
				Name: r.Name, Key: r.Key, Quota: r.Limit.N, Window: r.Limit.Per, Burst: r.Limit.Burst, Remaining: r.Remaining, Reset: r.Reset,
			})
		}
	}
	list.Write(h, d.RetryAfter)
}
