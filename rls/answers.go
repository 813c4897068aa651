package rls

import (
	"context"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

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

// envoy is envoy.service.ratelimit.v3.RateLimitService.
type envoy struct {
	pb.UnimplementedRateLimitServiceServer
	of *Server
}

// ShouldRateLimit decides, and takes.
func (e envoy) ShouldRateLimit(ctx context.Context, req *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return e.of.answer(ctx, req, take, callShouldRateLimit)
}

func (s *Server) answer(ctx context.Context, req *pb.RateLimitRequest, by how, call int) (*pb.RateLimitResponse, error) {
	s.calls[call].Add(1)
	c, err := s.callerOf(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	response, err := s.decideFor(c, req, by)
	if err != nil {
		return nil, s.fail(unauthorized(err, c))
	}
	return response, nil
}

func (s *Server) fail(err error) error {
	s.failed.Add(1)
	return failed(err)
}

// decideFor answers a request of a caller.
func (s *Server) decideFor(c service.Caller, req *pb.RateLimitRequest, by how) (*pb.RateLimitResponse, error) {
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
	denied, err := a.decide(s.service, c)
	if err != nil {
		return nil, err
	}
	response := a.answer(denied, s.cfg.Headers)
	if s.cfg.Metadata {
		response.DynamicMetadata = a.metadata(req, response)
	}
	return response, nil
}
