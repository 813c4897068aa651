package rls

import "google.golang.org/grpc"

const kuadrantName = "kuadrant.service.ratelimit.v1.RateLimitService"

// kuadrantFileName is the file that would describe its messages, as reflection names it.
const kuadrantFileName = "kuadrantrls.proto"

// kuadrantService is kuadrant.service.ratelimit.v1.RateLimitService, whose messages are Envoy's: CheckRateLimit asks whether a
// request may pass and takes nothing, and Report takes what has passed. It is described by hand: there is no Go module of it.
func (s *Server) kuadrantService() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: kuadrantName, HandlerType: (*any)(nil), Metadata: kuadrantFileName,
		Methods: []grpc.MethodDesc{s.method("CheckRateLimit", check, callCheckRateLimit), s.method("Report", report, callReport)},
	}
}
