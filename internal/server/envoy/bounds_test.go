package envoy

import (
	"bytes"
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// The role comes first: who may not decide does not learn what is wrong with a request.
func TestRoleFirst(t *testing.T) {
	t.Parallel()
	s := locked(t, options{limits: matrixFiles()}, map[string]string{"reader": "permissions: [{role: read}]", "decider": "permissions: [{role: decide}]"})
	for name, want := range map[string]codes.Code{"reader": codes.PermissionDenied, "decider": codes.InvalidArgument} {
		for _, request := range []*pb.RateLimitRequest{{}, {Domain: "in"}} {
			if _, err := s.should(as(t.Context(), name), request); status.Code(err) != want {
				t.Errorf("%s: %v: %v", name, request, err)
			}
		}
	}
}

// Answers of a management server that would take much memory are refused before they are decoded.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	c := NewXDSClient(XDSConfig{Addr: "127.0.0.1:1"}, func([]byte) error { return nil })
	for name, answer := range map[string]*discovery.DiscoveryResponse{
		"empty descriptors": {Resources: []*anypb.Any{{TypeUrl: typeURL, Value: bytes.Repeat([]byte{3<<3 | 2, 0}, maxMessages+1)}}},
		"a version":         {VersionInfo: strings.Repeat("x", 3<<20)},
	} {
		answer.TypeUrl = typeURL
		if err := c.use(answer); err == nil || !strings.Contains(err.Error(), "more than") && !strings.Contains(err.Error(), "at most") || len(err.Error()) > 200 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

// As many limits as a folder may have are taken, each under a descriptor of its own.
func TestMaxLimitsOfManagementServer(t *testing.T) {
	t.Parallel()
	var list []*ratelimit.RateLimitDescriptor
	for i := range MaxLimits {
		list = append(list, &ratelimit.RateLimitDescriptor{Key: "k", Value: strconv.Itoa(i), Descriptors: []*ratelimit.RateLimitDescriptor{
			{Key: "ip", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_MINUTE, RequestsPerUnit: 1}},
		}})
	}
	resource, err := anypb.New(&ratelimit.RateLimitConfig{Name: "a", Domain: "a", Descriptors: list})
	if err != nil {
		t.Fatal(err)
	}
	c := NewXDSClient(XDSConfig{Addr: "127.0.0.1:1"}, func(files []byte) error { _, err := ParseConfig(files); return err })
	if err := c.use(&discovery.DiscoveryResponse{TypeUrl: typeURL, Resources: []*anypb.Any{resource}}); err != nil {
		t.Error(err)
	}
}

// An answer below 4 MiB with 1.9 million parts takes little memory, and the client ends at once.
func TestHostileAnswerOnTheWire(t *testing.T) { // not in parallel: it measures the memory of the process
	const parts = 1_900_000
	for name, field := range map[string]byte{"empty descriptors": 3, "empty resources": 2} {
		raw := bytes.Repeat([]byte{field<<3 | 2, 0}, parts)
		answer := &discovery.DiscoveryResponse{TypeUrl: typeURL, Nonce: "n"}
		if field == 3 {
			answer.Resources = []*anypb.Any{{TypeUrl: typeURL, Value: raw}}
		} else {
			answer.ProtoReflect().SetUnknown(raw) // written as resources, and not built here
		}
		server := NewXDS(t, "")
		c := NewXDSClient(XDSConfig{Addr: server.Addr}, func([]byte) error { t.Error("an answer is used"); return nil })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.Run(ctx) }()
		<-server.Said
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		server.SendAnswer(answer)
		<-server.Said // the refusal, or the first question on a new connection
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("%s: %d MiB of memory", name, took>>20)
		} else {
			t.Logf("%s: %d MiB of memory, the server's included", name, took>>20)
		}
		server.SendAnswer(answer)
		cancel()
		<-ended
		server.Stop()
	}
}
