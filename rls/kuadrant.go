package rls

import (
	"context"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// kuadrant is kuadrant.service.ratelimit.v1.RateLimitService, whose messages are Envoy's: CheckRateLimit asks whether a
// request may pass and takes nothing, and Report takes what has passed.
type kuadrant struct{ of *Server }

type kuadrantMethod func(kuadrant, context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error)

func (k kuadrant) checkRateLimit(ctx context.Context, req *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return k.of.answer(ctx, req, check, callCheckRateLimit)
}

func (k kuadrant) report(ctx context.Context, req *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return k.of.answer(ctx, req, report, callReport)
}

const kuadrantName = "kuadrant.service.ratelimit.v1.RateLimitService"

// kuadrantService is its description, by hand: there is no Go module of it.
var kuadrantService = grpc.ServiceDesc{
	ServiceName: kuadrantName, HandlerType: (*any)(nil), Metadata: "kuadrantrls.proto",
	Methods: []grpc.MethodDesc{
		{MethodName: "CheckRateLimit", Handler: kuadrantHandler("CheckRateLimit", kuadrant.checkRateLimit)},
		{MethodName: "Report", Handler: kuadrantHandler("Report", kuadrant.report)},
	},
}

func kuadrantHandler(name string, method kuadrantMethod) grpc.MethodHandler {
	return func(of any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		req := new(pb.RateLimitRequest)
		if err := decode(req); err != nil {
			return nil, err
		}
		answer := func(ctx context.Context, req any) (any, error) {
			return method(of.(kuadrant), ctx, req.(*pb.RateLimitRequest))
		}
		if intercept == nil {
			return answer(ctx, req)
		}
		return intercept(ctx, req, &grpc.UnaryServerInfo{Server: of, FullMethod: "/" + kuadrantName + "/" + name}, answer)
	}
}
