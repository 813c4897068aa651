package envoy_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/weir-counter/weir/internal/server/envoy"
	"github.com/weir-counter/weir/internal/testsupport"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
)

// run follows a server, and tells each configuration that was taken.
func run(t *testing.T, cfg envoy.XDSConfig) (c *envoy.XDSClient, taken chan *envoy.LimitConfig) {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	taken = make(chan *envoy.LimitConfig, 10)
	c = envoy.NewXDSClient(cfg, func(files []byte) error {
		made, err := envoy.ParseConfig(files)
		if err == nil {
			taken <- made
		}
		return err
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return c, taken
}

// Answers are taken and acknowledged, or refused with the reason; a server that comes back learns the version in use.
func TestClient(t *testing.T) {
	t.Parallel()
	server := envoy.NewXDS(t, "")
	c, taken := run(t, envoy.XDSConfig{Addr: server.Addr})
	first := <-server.Said
	if first.Node.GetId() != "envoy-ratelimit" || first.VersionInfo != "" || !strings.HasSuffix(first.TypeUrl, "/ratelimit.config.ratelimit.v3.RateLimitConfig") {
		t.Error(first)
	}
	server.Send(envoy.XDSLimits("a", "k", 5), envoy.XDSLimits("b", "k", 6))
	if got := <-taken; got.Domains() != 2 || got.Find("b", []envoy.ConfigEntry{{Key: "k", Value: "x"}}).Requests != 6 {
		t.Error(got)
	}
	if ack := <-server.Said; ack.VersionInfo != "v1" || ack.ResponseNonce != "n1" || ack.ErrorDetail != nil || c.Refused() || !c.Connected() {
		t.Error(ack)
	}
	server.Send(envoy.XDSLimits("a", "", 5))
	if nack := <-server.Said; nack.VersionInfo != "v1" || nack.ResponseNonce != "n2" || nack.ErrorDetail.GetCode() != int32(codes.InvalidArgument) ||
		!strings.Contains(nack.ErrorDetail.GetMessage(), "a-resource:1: key: it is missing") || !c.Refused() {
		t.Error(nack)
	}
	server.SendAnswer(&discovery.DiscoveryResponse{TypeUrl: "other", Nonce: "x"})
	if nack := <-server.Said; nack.ErrorDetail == nil || nack.ResponseNonce != "x" {
		t.Error(nack)
	}
	server.Stop()
	again := envoy.NewXDS(t, server.Addr)
	if said := <-again.Said; said.VersionInfo != "v1" || said.ResponseNonce != "" || said.Node == nil {
		t.Error(said)
	}
	again.Send()
	if got := <-taken; got.Domains() != 0 {
		t.Error("no resources are no limits")
	}
}

// Each field of a resource is that of a file.
func TestResources(t *testing.T) {
	t.Parallel()
	server := envoy.NewXDS(t, "")
	_, taken := run(t, envoy.XDSConfig{Addr: server.Addr, Node: "me"})
	if first := <-server.Said; first.Node.Id != "me" {
		t.Error(first)
	}
	server.Send(&ratelimit.RateLimitConfig{Name: "r", Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{
		{Key: "k", Value: "v*", Descriptors: []*ratelimit.RateLimitDescriptor{{Key: "sub", ShadowMode: true, RateLimit: &ratelimit.RateLimitPolicy{
			Unit: ratelimit.RateLimitUnit_HOUR, RequestsPerUnit: 0, Name: "n", Replaces: []*ratelimit.RateLimitReplace{{Name: "o"}},
		}}}},
		{Key: "free", DetailedMetric: true, RateLimit: &ratelimit.RateLimitPolicy{Unlimited: true}},
		{Key: "quota", QuotaMode: true, RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_WEEK, RequestsPerUnit: 1}},
	}})
	c := <-taken
	sub := c.Find("d", []envoy.ConfigEntry{{Key: "k", Value: "v1"}, {Key: "sub", Value: "\"\u2028"}})
	if sub == nil || !sub.Shadow || sub.Requests != 0 || sub.Unit != envoy.Hour || sub.Label != "n" || len(sub.Replaces) != 1 {
		t.Errorf("%+v", sub)
	}
	if found := c.Find("d", []envoy.ConfigEntry{{Key: "free", Value: "x"}}); found == nil || !found.Unlimited || !found.Detailed {
		t.Errorf("%+v", found)
	}
	if found := c.Find("d", []envoy.ConfigEntry{{Key: "quota", Value: "x"}}); found == nil || !found.Quota || found.Unit != envoy.Week {
		t.Errorf("%+v", found)
	}
}

// The server proves who it is, and so does the client.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca := testsupport.NewAuthority(t)
	cert, key := ca.Server()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	server := envoy.NewXDS(t, "", grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13})))
	_, taken := run(t, envoy.XDSConfig{Addr: server.Addr, CA: ca.File(), Cert: cert, Key: key})
	server.Send(envoy.XDSLimits("a", "k", 5))
	<-taken
	for _, wrong := range []envoy.XDSConfig{{Addr: "x"}, {Addr: "a:1", Cert: "c"}, {Addr: "a:1", Cert: "c", Key: "k"}, {Addr: "a:1", CA: key}, {Addr: "a:1", CA: ca.File(), Cert: "no", Key: "no"}} {
		if err := wrong.Validate(); err == nil {
			t.Errorf("%+v: no error", wrong)
		}
	}
}
