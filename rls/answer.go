package rls

import (
	"bytes"
	"math"
	"strconv"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/internal/rlsconfig"
	"github.com/weir-counter/weir/policy/admit"
)

// answerTo is what Envoy is told.
func (s *Server) answerTo(req *pb.RateLimitRequest, a *ask, denied bool) (answer, error) {
	code := pb.RateLimitResponse_OK
	if denied {
		code = pb.RateLimitResponse_OVER_LIMIT
	}
	b := appendUint(a.bytes[:0], fieldOverallCode, uint64(code))
	for i := range a.parts {
		a.inner = a.appendStatus(a.inner[:0], &a.parts[i])
		b = appendBytes(b, fieldStatuses, a.inner)
	}
	switch s.cfg.Headers {
	case HeadersDraft:
		b = a.appendDraftFields(b, denied)
	case HeadersPlain:
		b = a.appendPlainFields(b)
	}
	if denied && len(a.decision.Denial) > 0 && s.cfg.Headers != HeadersNone {
		b = appendHeader(b, "weir-denial", a.decision.Denial)
	}
	if a.decision.Waited > 0 && s.cfg.Headers != HeadersNone {
		b = appendHeader(b, "weir-waited", strconv.AppendFloat(nil, a.decision.Waited.Seconds(), 'f', 3, 64))
	}
	if s.cfg.Metadata {
		metadata, err := proto.Marshal(a.metadata(req))
		if err != nil {
			return nil, err
		}
		b = appendBytes(b, fieldDynamicMetadata, metadata)
	}
	a.bytes = b
	return bytes.Clone(b), nil
}

// code is what an answer says of a part.
func (a *ask) code(p *part) pb.RateLimitResponse_Code {
	unlimited := p.limit != nil && p.limit.Unlimited
	if p.over && !p.shadow && a.how != report && p.shown != nil && !unlimited {
		return pb.RateLimitResponse_OVER_LIMIT
	}
	return pb.RateLimitResponse_OK
}

func (a *ask) appendStatus(b []byte, p *part) []byte {
	b = appendUint(b, fieldCode, uint64(a.code(p)))
	switch {
	case p.limit != nil && p.limit.Unlimited:
		return appendUint(b, fieldLimitRemaining, math.MaxUint32)
	case p.shown == nil:
		return b
	}
	b = appendBytes(b, fieldCurrentLimit, p.shown.wire)
	reset := time.Duration(0)
	if r := p.result; r != nil {
		reset = r.Reset
		if !p.over {
			b = appendUint(b, fieldLimitRemaining, min(r.Remaining, math.MaxUint32))
		}
	}
	var seconds [16]byte
	return appendBytes(b, fieldUntilReset, appendUint(seconds[:0], fieldSeconds, uint64(wholeSeconds(reset))))
}

// wholeSeconds rounds up: who waits for so long has waited long enough.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// appendDraftFields appends RateLimit-Policy, RateLimit and, of a denial, Retry-After.
func (a *ask) appendDraftFields(b []byte, denied bool) []byte {
	a.fields.Reset()
	wait := time.Duration(0)
	for i := range a.parts {
		p := &a.parts[i]
		r := p.result
		if r == nil || p.shadow {
			continue
		}
		m := ratelimitfields.Member{Name: r.Name, Key: r.Key, Quota: r.Limit.N, Window: r.Limit.Per, Burst: r.Limit.Burst, Remaining: r.Remaining, Reset: r.Reset}
		if p.over {
			m.Remaining = 0
			wait = max(wait, waitOf(r))
		}
		a.fields.Add(m)
	}
	if !denied {
		wait = 0
	}
	policies, limits := a.fields.Texts(wait)
	if len(policies) == 0 {
		return b
	}
	b = appendHeader(appendHeader(b, "ratelimit-policy", policies), "ratelimit", limits)
	if denied {
		b = appendHeader(b, "retry-after", []byte(ratelimitfields.RetryAfter(wait)))
	}
	return b
}

// waitOf is when to ask again, at least a second. What is more than can ever pass has used up what there was.
func waitOf(r *admit.Result) time.Duration {
	if r.Never {
		return max(r.Reset, time.Second)
	}
	return max(r.RetryAfter, time.Second)
}

// shownLimit is a limit of a policy in the words of Envoy: by the longest unit that its period is a multiple of; without
// a unit if it is no number of seconds.
func shownLimit(r *admit.Result) *shown {
	best, multiplier := rlsconfig.Unit(0), uint32(0)
	for unit := rlsconfig.Second; unit <= rlsconfig.Week; unit++ {
		if of := unit.Duration(); r.Limit.Per%of == 0 && of >= best.Duration() {
			best, multiplier = unit, uint32(r.Limit.Per/of)
		}
	}
	return newShown(r.Name, uint32(min(r.Limit.N, math.MaxUint32)), pb.RateLimitResponse_RateLimit_Unit(best), multiplier)
}

// appendPlainFields appends those of the limit with the least left: of a denial, the first that is over.
func (a *ask) appendPlainFields(b []byte) []byte {
	var least *part
	remaining := uint64(math.MaxUint64)
	for i := range a.parts {
		p := &a.parts[i]
		if p.shown == nil || p.shadow || p.limit != nil && p.limit.Unlimited {
			continue
		}
		left := uint64(0)
		if r := p.result; r != nil && !p.over {
			left = r.Remaining
		}
		if least == nil || left < remaining {
			least, remaining = p, left
		}
	}
	if least == nil {
		return b
	}
	reset := time.Duration(0)
	if r := least.result; r != nil {
		reset = r.Reset
	}
	var digits [20]byte
	b = appendHeader(b, "ratelimit-limit", strconv.AppendUint(digits[:0], uint64(least.shown.requests), 10))
	b = appendHeader(b, "ratelimit-remaining", strconv.AppendUint(digits[:0], remaining, 10))
	return appendHeader(b, "ratelimit-reset", strconv.AppendInt(digits[:0], wholeSeconds(reset), 10))
}
