package rls

import (
	"context"
	"time"

	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// healthServer answers grpc.health.v1.Health, which needs no identity: a probe has none. The server
// as a whole ("") and the rate limit service serve while the service is ready and the server does not stop.
type healthServer struct {
	*health.Server
	of *Server
}

const (
	envoyName   = "envoy.service.ratelimit.v3.RateLimitService"
	healthEvery = time.Second
)

func newHealthServer(of *Server) *healthServer {
	h := &healthServer{health.NewServer(), of}
	h.look()
	return h
}

// look notes how it is now.
func (h *healthServer) look() {
	is := grpc_health_v1.HealthCheckResponse_SERVING
	if _, refusing := h.of.service.Ready(); refusing != nil || h.of.draining.Load() || h.of.xds != nil && h.of.live.now.Load() == nil {
		is = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	for _, name := range []string{"", envoyName, kuadrantName} {
		h.SetServingStatus(name, is)
	}
}

// Check says how it is now.
func (h *healthServer) Check(ctx context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	h.look()
	return h.Server.Check(ctx, req)
}

// watch has Watch tell of changes, until ctx ends.
func (h *healthServer) watch(ctx context.Context) {
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			h.look()
		}
	}
}
