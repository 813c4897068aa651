package rls

import (
	"math"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/internal/rlsconfig"
	"github.com/weir-counter/weir/policy"
)

// answer is what Envoy is told.
func (a *ask) answer(denied bool, headers string) *pb.RateLimitResponse {
	statuses := make([]pb.RateLimitResponse_DescriptorStatus, len(a.parts)) // one allocation for all
	response := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK, Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, len(a.parts))}
	if denied {
		response.OverallCode = pb.RateLimitResponse_OVER_LIMIT
	}
	for i := range a.parts {
		status := &statuses[i]
		a.status(status, &a.parts[i])
		response.Statuses[i] = status
	}
	switch headers {
	case HeadersDraft:
		response.ResponseHeadersToAdd = a.draftFields(denied)
	case HeadersPlain:
		response.ResponseHeadersToAdd = a.plainFields()
	}
	if denied && len(a.decision.Denial) > 0 && (headers == HeadersDraft || headers == HeadersPlain) {
		response.ResponseHeadersToAdd = append(response.ResponseHeadersToAdd, &core.HeaderValue{Key: "weir-denial", Value: string(a.decision.Denial)})
	}
	return response
}

func (a *ask) status(to *pb.RateLimitResponse_DescriptorStatus, p *part) {
	to.Code = pb.RateLimitResponse_OK
	switch {
	case p.limit != nil && p.limit.Unlimited:
		to.LimitRemaining = math.MaxUint32
		return
	case p.shown == nil:
		return
	case p.over && !p.shadow && a.how != report:
		to.Code = pb.RateLimitResponse_OVER_LIMIT
	}
	to.CurrentLimit = p.shown
	reset := time.Duration(0)
	if r := p.result; r != nil {
		reset = r.Reset
		if !p.over {
			to.LimitRemaining = uint32(min(r.Remaining, math.MaxUint32))
		}
	}
	to.DurationUntilReset = &durationpb.Duration{Seconds: wholeSeconds(reset)}
}

// wholeSeconds rounds up: who waits for so long has waited long enough.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// draftFields are RateLimit-Policy, RateLimit and, of a denial, Retry-After.
func (a *ask) draftFields(denied bool) []*core.HeaderValue {
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
	if policies == "" {
		return nil
	}
	list := make([]core.HeaderValue, 2, 3)
	list[0].Key, list[0].Value = "ratelimit-policy", policies
	list[1].Key, list[1].Value = "ratelimit", limits
	if denied {
		list = append(list, core.HeaderValue{Key: "retry-after", Value: ratelimitfields.RetryAfter(wait)})
	}
	return pointers(list)
}

// waitOf is when to ask again, at least a second. What is more than can ever pass has used up what there was.
func waitOf(r *policy.Result) time.Duration {
	if r.Never {
		return max(r.Reset, time.Second)
	}
	return max(r.RetryAfter, time.Second)
}

// shownLimit is a limit of a policy in the words of Envoy: by the longest unit that its period is a multiple of; without
// a unit if it is no number of seconds.
func shownLimit(r *policy.Result) *pb.RateLimitResponse_RateLimit {
	shown := &pb.RateLimitResponse_RateLimit{Name: r.Name, RequestsPerUnit: uint32(min(r.Limit.N, math.MaxUint32))}
	for unit := rlsconfig.Second; unit <= rlsconfig.Week; unit++ {
		of := unit.Duration()
		if r.Limit.Per%of != 0 || of < rlsconfig.Unit(shown.Unit).Duration() {
			continue
		}
		shown.Unit, shown.UnitMultiplier = pb.RateLimitResponse_RateLimit_Unit(unit), nil
		if n := uint32(r.Limit.Per / of); n > 1 {
			shown.UnitMultiplier = wrapperspb.UInt32(n)
		}
	}
	return shown
}

// plainFields are those of the limit with the least left: of a denial, the first that is over.
func (a *ask) plainFields() []*core.HeaderValue {
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
		return nil
	}
	reset := time.Duration(0)
	if r := least.result; r != nil {
		reset = r.Reset
	}
	list := make([]core.HeaderValue, 3)
	list[0].Key, list[0].Value = "ratelimit-limit", strconv.FormatUint(uint64(least.shown.RequestsPerUnit), 10)
	list[1].Key, list[1].Value = "ratelimit-remaining", strconv.FormatUint(remaining, 10)
	list[2].Key, list[2].Value = "ratelimit-reset", strconv.FormatInt(wholeSeconds(reset), 10)
	return pointers(list)
}

func pointers(list []core.HeaderValue) []*core.HeaderValue {
	made := make([]*core.HeaderValue, len(list))
	for i := range list {
		made[i] = &list[i]
	}
	return made
}
