package envoy

import (
	"context"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

func (s *testServer) kuadrant(method, descriptors string) string {
	s.Helper()
	answer := new(pb.RateLimitResponse)
	if err := s.conn.Invoke(s.Context(), "/"+kuadrantName+"/"+method, newRequest(s, "edge", 0, descriptors), answer); err != nil {
		return "error: " + err.Error()
	}
	return short(answer)
}

// CheckRateLimit takes nothing, and Report takes what there is.
func TestKuadrant(t *testing.T) {
	t.Parallel()
	for _, o := range []options{{limits: tableLimits}, {policies: `limits: [{name: ip, keys: "edge:ip={ip}", limit: 3, per: 1m}]`}} {
		s := newTestServer(t, o)
		for _, step := range []struct{ method, descriptors, want string }{
			{"CheckRateLimit", "ip=1 | hits 9", "OK, ok 3/3"},
			{"CheckRateLimit", "ip=1", "OK, ok 3/3"},
			{"Report", "ip=1 | hits 2; ip=2", "OK, ok 1/3, ok 2/3"},
			{"CheckRateLimit", "ip=1; ip=2", "OK, ok 1/3, ok 2/3"},
			{"Report", "ip=1 | hits 1", "OK, ok 0/3"},
			{"CheckRateLimit", "ip=2; ip=1", "OVER, ok 2/3, over 0/3"},
			{"Report", "ip=1; ip=2", "OK, ok 0/3, ok 1/3"},
		} {
			if got := s.kuadrant(step.method, step.descriptors); got != step.want {
				t.Errorf("%s %s: %s, want %s", step.method, step.descriptors, got, step.want)
			}
		}
		if figures := s.Figures(); figures.Requests[callCheckRateLimit].Count != 4 || figures.Requests[callReport].Count != 3 {
			t.Errorf("%+v", figures)
		}
	}
	s := newTestServer(t, options{limits: tableLimits})
	if got := s.kuadrant("Report", "ip=1 | hits 9"); got != "OK, ok 0/3" {
		t.Error(got)
	}
	if got := s.kuadrant("CheckRateLimit", "ip=1"); got != "OVER, over 0/3" {
		t.Errorf("after more was reported than there was: %s", got)
	}
}

// kuadrantMessage is a ReserveRequest or a CommitRequest, with the fields after the descriptors appended.
func (s *testServer) kuadrantMessage(descriptors string, fields func([]byte) []byte) proto.Message {
	s.Helper()
	b, err := proto.Marshal(newRequest(s, "edge", 0, descriptors))
	if err != nil {
		s.Fatal(err)
	}
	m := new(emptypb.Empty)
	m.ProtoReflect().SetUnknown(fields(b))
	return m
}

// askReserve asks for a reservation, and returns OK or OVER and its ID.
func (s *testServer) askReserve(ctx context.Context, descriptors string, amount uint64, ttl time.Duration) (word, id string, err error) {
	s.Helper()
	lasts, err := proto.Marshal(durationpb.New(ttl))
	if err != nil {
		s.Fatal(err)
	}
	answer := new(emptypb.Empty)
	if err := s.conn.Invoke(ctx, "/"+kuadrantName+"/Reserve", s.kuadrantMessage(descriptors, func(b []byte) []byte {
		return appendBytes(appendUint(b, 3, amount), 4, lasts)
	}), answer); err != nil {
		return "", "", err
	}
	for b := answer.ProtoReflect().GetUnknown(); len(b) > 0; {
		field, _, n := protowire.ConsumeTag(b)
		b = b[n:]
		switch field {
		case 1:
			code, n := protowire.ConsumeVarint(b)
			word, b = map[uint64]string{1: "OK", 2: "OVER"}[code], b[n:]
		default:
			text, n := protowire.ConsumeBytes(b)
			id, b = string(text), b[n:]
		}
	}
	return word, id, nil
}

func (s *testServer) askCommit(ctx context.Context, descriptors, id string, amount uint64) (released bool, err error) {
	s.Helper()
	answer := new(emptypb.Empty)
	err = s.conn.Invoke(ctx, "/"+kuadrantName+"/Commit", s.kuadrantMessage(descriptors, func(b []byte) []byte {
		return appendUint(appendBytes(b, 3, id), 4, amount)
	}), answer)
	return len(answer.ProtoReflect().GetUnknown()) > 0, err
}

// Concurrent requests can't pass a budget: Reserve holds it, and Commit always counts what was used.
func TestReserveAndCommit(t *testing.T) {
	t.Parallel()
	const policies = `limits: [{name: tokens, keys: "edge:user={u}", limit: 100, per: 1m}, {name: all, keys: "edge:user={u}", by: all, limit: 1000, per: 1m}]`
	const files = "domain: edge\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 100}}]"
	for _, o := range []options{{limits: files}, {policies: policies}} {
		s := newTestServer(t, o)
		ctx := t.Context()
		reserve := func(amount uint64, want string) (id string) {
			t.Helper()
			word, id, err := s.askReserve(ctx, "user=a", amount, 30*time.Second)
			if err != nil || word != want || (id != "") != (want == "OK" && amount > 0) {
				t.Fatalf("reserve %d: %s %q %v", amount, word, id, err)
			}
			return id
		}
		commit := func(id string, amount uint64, want bool) {
			t.Helper()
			if released, err := s.askCommit(ctx, "user=a", id, amount); err != nil || released != want {
				t.Fatalf("commit %d: %v %v", amount, released, err)
			}
		}
		left := func(want string) {
			t.Helper()
			if got := s.kuadrant("CheckRateLimit", "user=a"); got != want {
				t.Errorf("left: %s, want %s", got, want)
			}
		}
		first, second := reserve(60, "OK"), reserve(40, "OK")
		reserve(1, "OVER")
		reserve(0, "OVER")
		commit(first, 10, true)
		left("OK, ok 50/100")
		commit(first, 10, true) // sent again: it counts once
		left("OK, ok 50/100")
		commit(second, 70, true) // more than was reserved
		left("OK, ok 20/100")
		commit("", 5, false) // as Report
		commit("unknown", 5, false)
		commit("unknown", 0, false)
		left("OK, ok 10/100")
		reserve(0, "OK")
		reserve(5, "OK")
		left("OK, ok 5/100")
		s.now.Add(int64(37 * time.Second)) // what is not committed is given back a moment after its time
		for until := time.Now().Add(3 * time.Minute); s.kuadrant("CheckRateLimit", "user=a") != "OK, ok 10/100"; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatal("it is not given back")
			}
		}
		commit("", 50, false)
		left("OVER, over 0/100")
		s.now.Add(int64(time.Hour))
		large := reserve(5000, "OK") // half of the burst
		left("OK, ok 50/100")
		commit(large, 0, true)
		left("OK, ok 100/100")
	}
}

// Role and prefix come before all else, and a reservation belongs to its identity.
func TestReserveRights(t *testing.T) {
	t.Parallel()
	s := locked(t, options{limits: tableLimits}, map[string]string{
		"reader": "permissions: [{role: read}]", "other": `permissions: [{role: decide, keys: ["other:"]}]`,
		"a": `permissions: [{role: decide, keys: ["edge:"]}]`, "b": `permissions: [{role: decide, keys: ["edge:"]}]`,
	})
	for _, name := range []string{"reader", "other"} {
		if _, _, err := s.askReserve(as(t.Context(), name), "ip=1", 1, time.Second); status.Code(err) != codes.PermissionDenied {
			t.Error(name, err)
		}
		if _, err := s.askCommit(as(t.Context(), name), "ip=1", "x", 1); status.Code(err) != codes.PermissionDenied {
			t.Error(name, err)
		}
	}
	_, id, err := s.askReserve(as(t.Context(), "a"), "ip=1", 2, time.Minute)
	if err != nil || id == "" {
		t.Fatal(id, err)
	}
	if released, err := s.askCommit(as(t.Context(), "b"), "ip=1", id, 0); err != nil || released {
		t.Error(released, err)
	}
	for range 2 {
		if released, err := s.askCommit(as(t.Context(), "a"), "ip=1", id, 0); err != nil || !released {
			t.Error(released, err)
		}
	}
	if _, err := s.askCommit(as(t.Context(), "a"), "ip=1", id, 1); status.Code(err) != codes.AlreadyExists {
		t.Error(err)
	}
	if _, _, err := s.askReserve(as(t.Context(), "a"), "", 2, time.Minute); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	if _, _, err := s.askReserve(as(t.Context(), "a"), "ip=1", 2, -time.Minute); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}
