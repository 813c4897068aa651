package envoy

import (
	"bytes"
	"context"
	"math"
	"strconv"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/ratelimitfields"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/tracing"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// answerTo returns the encoded answer to a request.
func (s *Server) answerTo(a *ask, denied bool) answer {
	code := pb.RateLimitResponse_OK
	if denied {
		code = pb.RateLimitResponse_OVER_LIMIT
	}
	b := appendUint(a.bytes[:0], fieldOverallCode, uint64(code))
	for i := range a.parts {
		a.inner = a.appendStatus(a.inner[:0], &a.parts[i])
		b = appendBytes(b, fieldStatuses, a.inner)
	}
	if s.cfg.Headers == HeadersDraft {
		b = a.appendDraftFields(b, denied)
		if denied && len(a.decision.Denial) > 0 {
			b = appendHeader(b, "weir-denial", a.decision.Denial)
		}
		if a.decision.Waited > 0 {
			b = appendHeader(b, "weir-waited", strconv.AppendFloat(nil, a.decision.Waited.Seconds(), 'f', 3, 64))
		}
	}
	a.bytes = b
	return bytes.Clone(b)
}

// code returns the code that the answer has for a part.
func (a *ask) code(p *part) pb.RateLimitResponse_Code {
	unlimited := p.limit != nil && p.limit.Unlimited
	if p.over && !p.shadow && a.purpose != report && p.shown != nil && !unlimited {
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

// wholeSeconds rounds up, so that a client that waits this long has waited long enough.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// appendDraftFields appends RateLimit-Policy and RateLimit, and Retry-After to a denial.
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

// waitOf returns when the client may ask again: at least a second. A request larger than the limit itself waits until
// the limit is unused.
func waitOf(r *admit.Result) time.Duration {
	if r.Never {
		return max(r.Reset, time.Second)
	}
	return max(r.RetryAfter, time.Second)
}

// shownLimit describes a limit of a policy in Envoy's units. It takes the longest unit of which the period is a
// multiple. A period that is no whole number of seconds has no unit.
func shownLimit(r *admit.Result) *shown {
	best, multiplier := ConfigUnit(0), uint32(0)
	for unit := UnitSecond; unit <= Week; unit++ {
		if length := unit.Duration(); r.Limit.Per%length == 0 && length >= best.Duration() {
			best, multiplier = unit, uint32(r.Limit.Per/length)
		}
	}
	return newShown(r.Name, uint32(min(r.Limit.N, math.MaxUint32)), pb.RateLimitResponse_RateLimit_Unit(best), multiplier)
}

// The kinds of requests, for figures.
const (
	callShouldRateLimit = iota
	callCheckRateLimit
	callReport
	callReserve
	callCommit
	callQuotas
	callReports
	callAbandons
	callRefusals
	calls
)

var callNames = [calls]string{"should_rate_limit", "check_rate_limit", "report", "reserve", "commit", "quota_stream", "quota_report", "quota_abandoned", "quota_refused"}

// envoyService is envoy.service.ratelimit.v3.RateLimitService.
func (s *Server) envoyService() *grpc.ServiceDesc {
	desc := pb.RateLimitService_ServiceDesc
	desc.HandlerType, desc.Methods = (*any)(nil), []grpc.MethodDesc{s.method("ShouldRateLimit", take, callShouldRateLimit)}
	return &desc
}

// method answers requests of a kind. The server has no interceptors of single requests.
func (s *Server) method(name string, by purpose, call int) grpc.MethodDesc {
	return s.unary(name, call, func(ctx context.Context, c access.Caller, decode func(any) error) (answer, error) {
		req := new(pb.RateLimitRequest)
		if err := decode(req); err != nil {
			return nil, err
		}
		return s.decideFor(ctx, c, req, by)
	})
}

// unary is a method whose caller may decide.
func (s *Server) unary(name string, call int, serve func(ctx context.Context, c access.Caller, decode func(any) error) (answer, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		s.calls[call].Add(1)
		began := time.Now()
		ctx, span := s.traced(ctx, name)
		made, err := s.permitted(ctx, decode, serve)
		s.took[call](time.Since(began), span.TraceID())
		if err != nil {
			span.Fail(status.Code(err).String())
		}
		span.End()
		if err != nil {
			return nil, err
		}
		return made, nil
	}}
}

// traced begins the span of a request, which is nil if it is not sampled.
func (s *Server) traced(ctx context.Context, name string) (context.Context, *tracing.Span) {
	if s.cfg.Tracer == nil {
		return ctx, nil
	}
	span := s.cfg.Tracer.Begin(name, map[string][]string{
		"traceparent": metadata.ValueFromIncomingContext(ctx, "traceparent"), "tracestate": metadata.ValueFromIncomingContext(ctx, "tracestate"),
	})
	if span != nil {
		span.Set("weir.listener", "rls")
	}
	return span.Into(ctx), span
}

// permitted serves a request if its caller may decide.
func (s *Server) permitted(ctx context.Context, decode func(any) error, serve func(context.Context, access.Caller, func(any) error) (answer, error)) (answer, error) {
	c, err := s.callerOf(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	if err := s.service.Permit(c, access.Decides); err != nil { // before anything of the request is read
		return nil, s.fail(unauthorized(err, c))
	}
	made, err := serve(ctx, c, decode)
	if err != nil {
		return nil, s.fail(err)
	}
	return made, nil
}

func (s *Server) fail(err error) error {
	s.failed.Add(1)
	return failed(err)
}

// decideFor answers a request of a caller that may decide.
func (s *Server) decideFor(ctx context.Context, c access.Caller, req *pb.RateLimitRequest, by purpose) (answer, error) {
	a, err := s.newAsk(by, req)
	defer a.free()
	if err != nil {
		return nil, err
	}
	a.prepare(s.cfg.Algorithm)
	a.decision.Waited = 0
	a.decision.Until, _ = ctx.Deadline()
	a.decision.Context = ctx
	denied, err := a.decide(s.service, c)
	a.decision.Context = nil
	if err != nil {
		return nil, err
	}
	return s.answerTo(a, denied), nil
}

// newAsk finds the limits of a request. The caller frees the ask, also after an error.
func (s *Server) newAsk(by purpose, req *pb.RateLimitRequest) (*ask, error) {
	a, limits := newAsk(by), s.live.now.Load()
	if limits == nil && s.xds != nil {
		return a, &api.Error{Code: api.CodeStarting, Message: "there are no limits yet: the management server " + s.cfg.XDS.Addr + " has sent none"}
	}
	return a, a.read(req, limits)
}

// The fields of messages, by number.
const (
	// of RateLimitResponse
	fieldOverallCode protowire.Number = 1
	fieldStatuses    protowire.Number = 2
	fieldHeaders     protowire.Number = 3

	// of DescriptorStatus
	fieldCode           protowire.Number = 1
	fieldCurrentLimit   protowire.Number = 2
	fieldLimitRemaining protowire.Number = 3
	fieldUntilReset     protowire.Number = 4

	// of RateLimit
	fieldRequests   protowire.Number = 1
	fieldUnit       protowire.Number = 2
	fieldName       protowire.Number = 3
	fieldMultiplier protowire.Number = 4

	// of Duration, of UInt32Value, and of HeaderValue
	fieldSeconds protowire.Number = 1
	fieldNumber  protowire.Number = 1
	fieldKey     protowire.Number = 1
	fieldValue   protowire.Number = 2
)

// appendUint appends a number. It leaves out 0, the value of a missing field.
func appendUint(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// appendBytes appends a text, or a message.
func appendBytes[T string | []byte](b []byte, field protowire.Number, text T) []byte {
	b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(len(text)))
	return append(b, text...)
}

// appendHeader appends a header field that Envoy is asked to add.
func appendHeader(b []byte, key string, value []byte) []byte {
	size := protowire.SizeTag(fieldKey) + protowire.SizeBytes(len(key)) + protowire.SizeTag(fieldValue) + protowire.SizeBytes(len(value))
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldHeaders, protowire.BytesType), uint64(size))
	return appendBytes(appendBytes(b, fieldKey, key), fieldValue, value)
}

// shown is a limit as it appears in answers.
type shown struct {
	requests uint32
	wire     []byte // a RateLimitResponse.RateLimit
}

// newShown encodes a limit. It leaves out a multiplier of 1.
func newShown(name string, requests uint32, unit pb.RateLimitResponse_RateLimit_Unit, multiplier uint32) *shown {
	b := appendUint(appendUint(nil, fieldRequests, uint64(requests)), fieldUnit, uint64(unit))
	if name != "" {
		b = appendBytes(b, fieldName, name)
	}
	if multiplier > 1 {
		b = appendBytes(b, fieldMultiplier, appendUint(nil, fieldNumber, uint64(multiplier)))
	}
	return &shown{requests, b}
}
