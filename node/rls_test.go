package node_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/testsupport"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// decideAt asks a node for a decision of domain edge, and tells what is left.
func decideAt(ctx context.Context, t *testing.T, n *node.Node, creds credentials.TransportCredentials, key, value string) (left uint32, err error) {
	t.Helper()
	conn, err := grpc.NewClient(n.RLSAddr(), grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &pb.RateLimitRequest{
		Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: key, Value: value}}}},
	})
	if err != nil {
		return 0, err
	}
	return answer.Statuses[0].LimitRemaining, nil
}

func rlsLimits(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(path, []byte("domain: edge\ndescriptors: [{key: ip, rate_limit: {unit: hour, requests_per_unit: 10}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Envoy's listener decides, its figures are among the metrics, what was used outlives a restart.
func TestANodeWithRLS(t *testing.T) {
	t.Parallel()
	cfg := config(t, t.TempDir())
	cfg.RLS.Addr, cfg.RLS.Limits = "127.0.0.1:0", rlsLimits(t)
	n := nodetest.Open(t, cfg)
	for want := uint32(9); want > 6; want-- {
		if left, err := decideAt(t.Context(), t, n, insecure.NewCredentials(), "ip", "1"); left != want || err != nil {
			t.Fatalf("%d left, %v", left, err)
		}
	}
	if _, err := decideAt(t.Context(), t, n, insecure.NewCredentials(), "", ""); err != nil {
		t.Error(err)
	}
	answer := httptest.NewRecorder()
	n.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil))
	for _, want := range []string{
		`weir_listener_requests_total{command="should_rate_limit",listener="rls"} 4`, `weir_listener_requests_failed_total{listener="rls"} 0`,
		`weir_listener_connections_bound{listener="rls"} 4096`, `weir_limit_decisions_total{limit="rls/edge/ip",outcome="allowed"} 3`,
	} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if count(t, n, "limit:rls/edge/ip:allowed") != 3 {
		t.Error("decisions are not counted")
	}
	nodetest.Close(t, n)
	n = nodetest.Open(t, cfg)
	if left, err := decideAt(t.Context(), t, n, insecure.NewCredentials(), "ip", "1"); left != 6 || err != nil {
		t.Errorf("after a restart: %d left, %v", left, err)
	}
}

// Tokens and certificates open Envoy's listener, over TLS.
func TestALockedNodeWithRLS(t *testing.T) {
	t.Parallel()
	ca, dir := testsupport.NewAuthority(t), t.TempDir()
	tokens := filepath.Join(dir, "tokens.yaml")
	token, _, err := auth.Create(tokens, auth.New{Identity: "envoy", Permissions: []auth.Permission{{Role: auth.Decide}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(tokens)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "- {name: machine, permissions: [{role: decide, keys: [\"edge:ip=\"]}], certificates: [\"dns:machine.internal\"]}\n"...)
	if err := os.WriteFile(tokens, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config(t, t.TempDir())
	cert, key := ca.Server()
	cfg.TLS, cfg.Tokens.File = node.TLS{Cert: cert, Key: key, ClientCA: ca.File()}, tokens
	cfg.RLS.Addr, cfg.RLS.Limits = "127.0.0.1:0", rlsLimits(t)
	n := nodetest.Open(t, cfg)
	with := func(certificates ...tls.Certificate) credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{RootCAs: ca.Pool(), Certificates: certificates, MinVersion: tls.VersionTLS13})
	}
	bearer := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	for name, c := range map[string]struct {
		ctx   context.Context
		creds credentials.TransportCredentials
		key   string
		want  codes.Code
	}{
		"a token":                            {bearer, with(), "ip", codes.OK},
		"nothing":                            {t.Context(), with(), "ip", codes.Unauthenticated},
		"a certificate":                      {t.Context(), with(ca.Client("machine.internal")), "ip", codes.OK},
		"a certificate, outside its keys":    {t.Context(), with(ca.Client("machine.internal")), "user", codes.PermissionDenied},
		"a token before the certificate":     {bearer, with(ca.Client("machine.internal")), "user", codes.OK},
		"a stranger's certificate":           {t.Context(), with(ca.Client("stranger.internal")), "ip", codes.Unauthenticated},
		"a certificate of nobody's, a token": {bearer, with(ca.Client("stranger.internal")), "ip", codes.OK},
		"no TLS":                             {bearer, insecure.NewCredentials(), "ip", codes.Unavailable},
	} {
		if _, err := decideAt(c.ctx, t, n, c.creds, c.key, "1"); status.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestANodeWhoseRLSIsWrong(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	wrong := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(wrong, []byte("domain: edge\ndescriptor: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config(t, t.TempDir())
	for _, c := range []struct{ addr, limits, want string }{
		{taken.Addr().String(), "", "choose another address with --rls"},
		{"127.0.0.1:0", wrong, wrong + ":2: descriptor: unknown field, did you mean descriptors?"},
	} {
		cfg.RLS.Addr, cfg.RLS.Limits = c.addr, c.limits
		n, err := node.Start(t.Context(), cfg)
		if err == nil {
			_ = n.Close(t.Context())
			t.Fatal("it started")
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Error(err)
		}
		if files, err := os.ReadDir(cfg.Journal.Dir); err == nil && len(files) > 0 {
			t.Errorf("%s: the data directory was opened: %v", c.want, files)
		}
	}
	cfg.RLS.Addr, cfg.RLS.Limits = "", ""
	nodetest.Close(t, nodetest.Open(t, cfg)) // nothing of the failed start is left open
}
