package server

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
)

// AllowAnswer is the answer to POST /v1/allow, as the OpenAPI document describes it;
// appendAnswer writes it.
type AllowAnswer struct {
	Allowed     bool         `json:"allowed" doc:"The request may pass; what it asked for is taken."`
	Unmatched   bool         `json:"unmatched,omitempty" doc:"No policy is for any of the keys, so nothing limits the request."`
	RetryAfterS float64      `json:"retry_after_s,omitempty" doc:"Until the request would be allowed, if nothing else happens; absent when it was."`
	Limits      []LimitState `json:"limits" nullable:"false" doc:"What each limit says, in the order of the checks, of each in the order of the policies."`
}

// LimitState is what one limit says of a request.
type LimitState struct {
	Name        string  `json:"name" doc:"Of the policy, or of the limit that the request brought along." example:"login"`
	Key         string  `json:"key" doc:"The key that is counted: by of the policy may make another one of the request's." example:"login:bob"`
	Mode        string  `json:"mode" enum:"enforce,shadow" doc:"shadow denies nothing: it says what it would have denied."`
	Allowed     bool    `json:"allowed" doc:"What this limit says by itself. When another one denies the request, nothing is taken of this one either."`
	Never       bool    `json:"never,omitempty" doc:"More was asked than the burst of a shadow limit; one that is enforced answers that with the problem invalid_count."`
	Away        string  `json:"away,omitempty" enum:"closed,open,share,own" doc:"The node that decides this limit did not answer, and it was decided without it: a strict one as its policy says, denied, admitted, or by this node's share; a shared one by what this node itself has admitted (own)."`
	N           uint64  `json:"n" doc:"How many were asked for."`
	Limit       uint64  `json:"limit" doc:"How many per per_s."`
	PerS        float64 `json:"per_s" doc:"The period in seconds."`
	Burst       uint64  `json:"burst" doc:"How many at once: at most burst in any per_s * burst / limit seconds."`
	Remaining   uint64  `json:"remaining" doc:"How many would be allowed now."`
	RetryAfterS float64 `json:"retry_after_s,omitempty" doc:"Until this limit would allow it; absent when it did."`
	ResetS      float64 `json:"reset_s" doc:"Until the whole burst is there again."`
}

// appendAnswer writes a decision as AllowAnswer has it.
func appendAnswer(b []byte, d *policy.Decision) []byte {
	b = append(b, `{"allowed":`...)
	b = strconv.AppendBool(b, d.Allowed)
	if d.Unmatched {
		b = append(b, `,"unmatched":true`...)
	}
	b = appendRetryAfter(b, d.RetryAfter)
	b = append(b, `,"limits":[`...)
	for i := range d.Results {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendState(b, &d.Results[i])
	}
	return append(b, "]}\n"...)
}

func appendState(b []byte, r *policy.Result) []byte {
	b = append(b, `{"name":"`...)
	b = append(b, r.Name...) // has no character to escape
	b = append(b, `","key":`...)
	b = appendJSONString(b, r.Key)
	b = append(b, `,"mode":"`...)
	b = append(b, r.Mode.String()...)
	b = append(b, `","allowed":`...)
	b = strconv.AppendBool(b, r.Allowed)
	if r.Never {
		b = append(b, `,"never":true`...)
	}
	if r.Away != "" {
		b = append(b, `,"away":"`...)
		b = append(b, r.Away...)
		b = append(b, '"')
	}
	b = append(b, `,"n":`...)
	b = strconv.AppendUint(b, r.N, 10)
	b = append(b, `,"limit":`...)
	b = strconv.AppendUint(b, r.Limit.N, 10)
	b = append(b, `,"per_s":`...)
	b = units.AppendUnix(b, time.Unix(0, int64(r.Limit.Per))) // not rounded: a limit is what it is
	b = append(b, `,"burst":`...)
	b = strconv.AppendUint(b, r.Limit.Burst, 10)
	b = append(b, `,"remaining":`...)
	b = strconv.AppendUint(b, r.Remaining, 10)
	b = appendRetryAfter(b, r.RetryAfter)
	b = append(b, `,"reset_s":`...)
	b = appendSeconds(b, r.Reset)
	return append(b, '}')
}

func appendRetryAfter(b []byte, d time.Duration) []byte {
	if d <= 0 {
		return b
	}
	b = append(b, `,"retry_after_s":`...)
	return appendSeconds(b, d)
}

// appendSeconds writes seconds with the decimals that they have, rounded up to
// milliseconds: who waits for so long has waited long enough.
func appendSeconds(b []byte, d time.Duration) []byte {
	return units.AppendUnix(b, time.Unix(0, int64(milliseconds(d))))
}

func milliseconds(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1) / time.Millisecond * time.Millisecond
}

// appendJSONString writes s, which is UTF-8, as a string of JSON.
func appendJSONString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			text, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string has no way to fail
			}
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
