package envoy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// locked is a server with an identity for each of fields, whose token is weir_NAME_s.
func locked(t testing.TB, o options, identities map[string]string) *testServer {
	t.Helper()
	set, err := auth.Parse("tokens", []byte(tokenFile(identities)))
	if err != nil {
		t.Fatal(err)
	}
	o.tokens = access.NewTokens(set)
	s := newTestServer(t, o)
	s.tokens = o.tokens
	return s
}

func tokenFile(identities map[string]string) string {
	var file strings.Builder
	file.WriteString("identities:\n")
	for name, fields := range identities {
		fmt.Fprintf(&file, "- {name: %s, %s, tokens: [{id: %s, sha256: %x}]}\n", name, fields, name, sha256.Sum256([]byte("weir_"+name+"_s")))
	}
	return file.String()
}

func as(ctx context.Context, name string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer weir_"+name+"_s")
}

const matrixLimits = `
domain: in
descriptors:
- {key: k, rate_limit: {unit: hour, requests_per_unit: 100000}}
- {key: other, rate_limit: {unit: hour, requests_per_unit: 100000}}
- {key: none, value: x}
`

// matrixFiles are two domains with the same limits.
func matrixFiles() string { return matrixLimits }

// Every method, for every role, inside and outside its keys and limits.
func TestMatrix(t *testing.T) {
	t.Parallel()
	identities := map[string]string{}
	for _, role := range auth.RoleNames() {
		identities[role+"0all"] = fmt.Sprintf("permissions: [{role: %s}]", role)
		limits := ", limits: [rls/in/k]"
		if role == "ingest" {
			limits = ""
		}
		identities[role+"0some"] = fmt.Sprintf(`permissions: [{role: %s, keys: ["in:k="]%s}]`, role, limits)
	}
	s := locked(t, options{limits: matrixFiles()}, identities)
	methods := map[string]func(context.Context, *pb.RateLimitRequest) error{}
	for _, method := range []string{pb.RateLimitService_ShouldRateLimit_FullMethodName, "/" + kuadrantName + "/CheckRateLimit", "/" + kuadrantName + "/Report"} {
		methods[method] = func(ctx context.Context, r *pb.RateLimitRequest) error {
			return s.conn.Invoke(ctx, method, r, new(pb.RateLimitResponse))
		}
	}
	for field, name := range map[protowire.Number]string{3: "Reserve", 4: "Commit"} {
		methods[name] = func(ctx context.Context, r *pb.RateLimitRequest) error {
			b, err := proto.Marshal(r)
			m := new(emptypb.Empty)
			m.ProtoReflect().SetUnknown(appendUint(b, field, 1))
			return errors.Join(err, s.conn.Invoke(ctx, "/"+kuadrantName+"/"+name, m, new(emptypb.Empty)))
		}
	}
	known := 0
	for name, info := range s.grpc.GetServiceInfo() {
		if name == envoyName || name == kuadrantName {
			known += len(info.Methods)
		} else if name != quotaName && name != "grpc.health.v1.Health" {
			t.Errorf("the matrix has no %s", name)
		}
	}
	if known != len(methods) {
		t.Errorf("%d methods, and the matrix has %d", known, len(methods))
	}
	inside := []string{"k=a", "k=a | hits 0", "k=a; k=b", "k=a more=x"}
	outside := []string{"other=a", "k=a; other=b", "none=x", "nothing=x", "k=a; none=x", "other=a | limit 5/MINUTE"}
	for name := range identities {
		role, part, _ := strings.Cut(name, "0")
		for method, call := range methods {
			for _, side := range []struct {
				descriptors []string
				may         bool
			}{{inside, role == "decide"}, {outside, role == "decide" && part == "all"}, {[]string{"k=a | limit 5/MINUTE"}, role == "decide" && part == "all"}} {
				for _, descriptors := range side.descriptors {
					err := call(as(t.Context(), name), newRequest(t, "in", 0, descriptors))
					want := codes.OK
					if !side.may {
						want = codes.PermissionDenied
					}
					if status.Code(err) != want {
						t.Errorf("%s: %s %s: %v", name, method, descriptors, err)
					}
				}
			}
			if err := call(as(t.Context(), name), newRequest(t, "foreign", 0, "k=a")); (err == nil) != (name == "decide0all") {
				t.Errorf("%s: %s of a domain that is not there: %v", name, method, err)
			}
		}
	}
	for method, call := range methods {
		for name, ctx := range map[string]context.Context{
			"nobody": t.Context(), "a stranger": as(t.Context(), "stranger"),
			"another scheme": metadata.AppendToOutgoingContext(t.Context(), "authorization", "Basic weir_decide0all_s"),
		} {
			err := call(ctx, newRequest(t, "in", 0, "k=a"))
			if status.Code(err) != codes.Unauthenticated || name == "nobody" && !strings.Contains(err.Error(), "authorization: Bearer TOKEN") {
				t.Errorf("%s: %s: %v", name, method, err)
			}
		}
	}
}

// What is asked of another's key is answered alike, whether it has a limit, has used of it, or not.
func TestForeignKeysDoNotShow(t *testing.T) {
	t.Parallel()
	s := locked(t, options{limits: matrixFiles()}, map[string]string{"all": "permissions: [{role: decide}]", "some": `permissions: [{role: decide, keys: ["in:k=mine"]}]`})
	if _, err := s.should(as(t.Context(), "all"), newRequest(t, "in", 0, "k=theirs")); err != nil {
		t.Fatal(err)
	}
	for _, descriptors := range []string{"k=theirs", "k=unused", "other=x", "none=x", "nothing=x"} {
		_, err := s.should(as(t.Context(), "some"), newRequest(t, "in", 0, descriptors))
		want := "forbidden: role decide of this identity is not for the key in:" + descriptors
		if status.Code(err) != codes.PermissionDenied || status.Convert(err).Message() != want {
			t.Errorf("%s: %v", descriptors, err)
		}
	}
	if got, err := s.should(as(t.Context(), "some"), newRequest(t, "in", 0, "k=mine")); err != nil || short(got) != "OK, ok 99999/100000" {
		t.Error(got, err)
	}
}

// Health is for everybody.
func TestHealth(t *testing.T) {
	t.Parallel()
	s := locked(t, options{limits: matrixFiles()}, map[string]string{"reader": "permissions: [{role: read}]"})
	probe := grpc_health_v1.NewHealthClient(s.conn)
	for _, name := range []string{"", envoyName, kuadrantName} {
		if answer, err := probe.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name}); err != nil || answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%s: %v, %v", name, answer, err)
		}
	}
	if _, err := probe.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	s.draining.Store(true)
	if answer, err := probe.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil || answer.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("while it stops: %v, %v", answer, err)
	}
	if err := s.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// A ceiling of an identity holds at this listener too.
func TestCeiling(t *testing.T) {
	t.Parallel()
	s := locked(t, options{limits: matrixFiles()}, map[string]string{"shop": "permissions: [{role: decide}], ceilings: {requests_per_second: 2}"})
	var failed int
	for range 5 {
		if _, err := s.should(as(t.Context(), "shop"), newRequest(t, "in", 0, "k=a")); err != nil {
			failed++
			if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "requests_per_second") {
				t.Error(err)
			}
		}
	}
	if failed == 0 {
		t.Error("no ceiling")
	}
}

// One who has the keys of two descriptors has their decision too where the limit of one replaces the other's.
func TestReplacedLimitsKeepTheirKeys(t *testing.T) {
	t.Parallel()
	s := locked(t, options{limits: `
domain: in
descriptors:
- {key: a, rate_limit: {name: gold, unit: hour, requests_per_unit: 9}}
- {key: b, rate_limit: {unit: hour, requests_per_unit: 9, replaces: [{name: gold}]}}
`}, map[string]string{"some": `permissions: [{role: decide, keys: ["in:"]}]`, "half": `permissions: [{role: decide, keys: ["in:b"]}]`})
	both := newRequest(t, "in", 0, "a=1; b=1")
	if _, err := s.should(as(t.Context(), "some"), both); err != nil {
		t.Error(err)
	}
	if _, err := s.should(as(t.Context(), "half"), both); status.Code(err) != codes.PermissionDenied {
		t.Errorf("who may not decide of one of the keys: %v", err)
	}
}
