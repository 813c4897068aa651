package envoy

import (
	"fmt"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/internal/service/access"
)

// What a decision costs without gRPC.
func BenchmarkDecide(b *testing.B) {
	s := newTestServer(b, options{limits: tableLimits})
	requests := make([]*pb.RateLimitRequest, 10_000)
	for i := range requests {
		requests[i] = newRequest(b, "edge", 0, fmt.Sprintf("many=%d", i))
	}
	c := access.CallerAt("127.0.0.1:1")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.decideFor(b.Context(), c, requests[i%len(requests)], take); err != nil {
			b.Fatal(err)
		}
	}
}

// What a decision costs with it, client and server together.
func BenchmarkShouldRateLimit(b *testing.B) {
	s := newTestServer(b, options{limits: tableLimits})
	requests := make([]*pb.RateLimitRequest, 10_000)
	for i := range requests {
		requests[i] = newRequest(b, "edge", 0, fmt.Sprintf("many=%d", i))
	}
	client := pb.NewRateLimitServiceClient(s.conn)
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			if _, err := client.ShouldRateLimit(b.Context(), requests[i%len(requests)]); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
