package envoy

import (
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
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
