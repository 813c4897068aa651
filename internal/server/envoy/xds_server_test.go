package envoy

import (
	"fmt"
	"net"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
)

// XDSServer is a management server on a loopback port. It sends what a test says, and records what clients said.
type XDSServer struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	testing.TB
	Addr string
	// Said is what clients sent, in order.
	Said chan *discovery.DiscoveryRequest

	answers chan *discovery.DiscoveryResponse
	grpc    *grpc.Server
	serving sync.WaitGroup
	sent    int
}

// NewXDS starts a server at an address, "" for any.
func NewXDS(t testing.TB, addr string, options ...grpc.ServerOption) *XDSServer {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	const most = 100
	s := &XDSServer{TB: t, Addr: l.Addr().String(), Said: make(chan *discovery.DiscoveryRequest, most), answers: make(chan *discovery.DiscoveryResponse, most), grpc: grpc.NewServer(options...)}
	discovery.RegisterAggregatedDiscoveryServiceServer(s.grpc, s)
	s.serving.Go(func() { _ = s.grpc.Serve(l) }) // until Stop
	t.Cleanup(s.Stop)
	return s
}

// Stop ends the server and its streams.
func (s *XDSServer) Stop() {
	s.grpc.Stop()
	s.serving.Wait()
}

// Send sends resources, in a version of their number.
func (s *XDSServer) Send(resources ...*ratelimit.RateLimitConfig) {
	s.Helper()
	s.sent++
	answer := &discovery.DiscoveryResponse{
		TypeUrl: "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig", VersionInfo: fmt.Sprint("v", s.sent), Nonce: fmt.Sprint("n", s.sent),
	}
	for _, r := range resources {
		made, err := anypb.New(r)
		if err != nil {
			s.Fatal(err)
		}
		answer.Resources = append(answer.Resources, made)
	}
	s.answers <- answer
}

// SendAnswer sends an answer as it is.
func (s *XDSServer) SendAnswer(answer *discovery.DiscoveryResponse) { s.answers <- answer }

// StreamAggregatedResources implements discovery.AggregatedDiscoveryServiceServer.
func (s *XDSServer) StreamAggregatedResources(stream grpc.BidiStreamingServer[discovery.DiscoveryRequest, discovery.DiscoveryResponse]) error {
	go func() {
		for {
			said, err := stream.Recv()
			if err != nil {
				return
			}
			s.Said <- said
		}
	}()
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case answer := <-s.answers:
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
	}
}

// XDSLimits is a resource of one domain whose descriptor key has so many requests a minute.
func XDSLimits(domain, key string, requests uint32) *ratelimit.RateLimitConfig {
	return &ratelimit.RateLimitConfig{Name: domain + "-resource", Domain: domain, Descriptors: []*ratelimit.RateLimitDescriptor{{
		Key: key, RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_MINUTE, RequestsPerUnit: requests},
	}}}
}
