package rls

import (
	"context"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// The kinds of requests, for figures.
const (
	callShouldRateLimit = iota
	callCheckRateLimit
	callReport
	callJSON
	calls
)

var callNames = [calls]string{"should_rate_limit", "check_rate_limit", "report", "json"}

// envoyService is envoy.service.ratelimit.v3.RateLimitService.
func (s *Server) envoyService() *grpc.ServiceDesc {
	desc := pb.RateLimitService_ServiceDesc
	desc.HandlerType, desc.Methods = (*any)(nil), []grpc.MethodDesc{s.method("ShouldRateLimit", take, callShouldRateLimit)}
	return &desc
}

// method answers requests of a kind. The server has no interceptors of single requests.
func (s *Server) method(name string, by how, call int) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		req := new(pb.RateLimitRequest)
		if err := decode(req); err != nil {
			return nil, err
		}
		return s.answer(ctx, req, by, call)
	}}
}

func (s *Server) answer(ctx context.Context, req *pb.RateLimitRequest, by how, call int) (any, error) {
	s.calls[call].Add(1)
	c, err := s.callerOf(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	made, err := s.decideFor(ctx, c, req, by)
	if err != nil {
		return nil, s.fail(unauthorized(err, c))
	}
	return made, nil
}

func (s *Server) fail(err error) error {
	s.failed.Add(1)
	return failed(err)
}

// decideFor answers a request of a caller.
func (s *Server) decideFor(ctx context.Context, c service.Caller, req *pb.RateLimitRequest, by how) (answer, error) {
	if err := s.service.Identify(c); err != nil {
		return nil, err
	}
	limits := s.live.now.Load()
	if limits == nil && s.xds != nil {
		return nil, &service.Error{Code: api.CodeStarting, Message: "there are no limits yet: the management server " + s.cfg.XDS.Addr + " has sent none"}
	}
	a := newAsk(by)
	defer a.free()
	if err := a.read(req, limits); err != nil {
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
	return s.answerTo(req, a, denied)
}
