package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
)

// Decisions are encoded by hand: encoding/json would cost more than the decision.

// appendAnswer writes a decision as an api.AllowAnswer, or, with the ID of a reservation or with known, as an
// api.ReserveAnswer.
func appendAnswer(b []byte, d *admit.Decision, id string, known bool) []byte {
	b = append(b, '{')
	if id != "" {
		b = append(appendJSONString(append(b, `"id":`...), id), ',')
	}
	if known {
		b = append(b, `"known":true,`...)
	}
	b = append(b, `"allowed":`...)
	b = strconv.AppendBool(b, d.Allowed)
	if d.Unmatched {
		b = append(b, `,"unmatched":true`...)
	}
	b = appendRetryAfter(b, d.RetryAfter)
	if len(d.Denial) > 0 {
		b = append(b, `,"denial":"`...)
		b = append(b, d.Denial...) // has no character to escape
		b = append(b, '"')
	}
	if d.Waited > 0 {
		b = append(b, `,"waited_s":`...)
		b = appendSeconds(b, d.Waited)
	}
	b = append(b, `,"limits":[`...)
	for i := range d.Results {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendState(b, &d.Results[i])
	}
	return append(b, "]}\n"...)
}

func appendState(b []byte, r *admit.Result) []byte {
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
	if r.Banned {
		b = append(b, `,"banned":true`...)
	}
	if r.Warning {
		b = append(b, `,"warning":true`...)
	}
	if r.Away != "" {
		b = append(b, `,"away":"`...)
		b = append(b, r.Away...)
		b = append(b, '"')
	}
	if r.NoPart {
		b = append(b, `,"no_part":true`...)
	}
	b = append(b, `,"n":`...)
	b = strconv.AppendUint(b, r.N, 10)
	b = append(b, `,"limit":`...)
	b = strconv.AppendUint(b, r.Limit.N, 10)
	b = append(b, `,"per_s":`...)
	b = units.AppendUnix(b, time.Unix(0, int64(r.Limit.Per))) // not rounded: a limit is what it is
	b = append(b, `,"burst":`...)
	b = strconv.AppendUint(b, r.Limit.Burst, 10)
	if by := r.Limit.Calendar.String(); by != "" {
		b = append(b, `,"calendar":`...)
		b = appendJSONString(b, by)
	}
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
// milliseconds, so that a client that waits so long has waited long enough.
func appendSeconds(b []byte, d time.Duration) []byte {
	return units.AppendUnix(b, time.Unix(0, int64(request.Milliseconds(d))))
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

// setRateLimit sets the header fields for the limits that are enforced. It uses the memory of list.
func setRateLimit(h http.Header, d *admit.Decision, list *ratelimitfields.List) {
	list.Reset()
	for i := range d.Results {
		if r := &d.Results[i]; r.Mode == policy.Enforce {
			list.Add(ratelimitfields.Member{
				Name: r.Name, Key: r.Key, Quota: r.Limit.N, Window: r.Limit.Per, Burst: r.Limit.Burst, Remaining: r.Remaining, Reset: r.Reset,
			})
		}
	}
	list.Write(h, d.RetryAfter)
	setWarning(h, d)
	if d.Waited > 0 {
		h.Set(waitedHeader, string(appendSeconds(nil, d.Waited)))
	}
}

// denialHeader has the ID of a denial.
const denialHeader = "Weir-Denial"

// setDenial sets the ID of a denial.
func setDenial(h http.Header, d *admit.Decision) {
	if len(d.Denial) > 0 {
		h.Set(denialHeader, string(d.Denial))
	}
}

// waitedHeader has the seconds that a request waited for its turn.
const waitedHeader = "Weir-Waited"

// warningHeader names the limits that warn.
const warningHeader = "Weir-Warning"

// setWarning names the limits that warn.
func setWarning(h http.Header, d *admit.Decision) {
	for i := range d.Results {
		if r := &d.Results[i]; r.Warning && r.Mode == policy.Enforce {
			h.Add(warningHeader, r.Name)
		}
	}
}
