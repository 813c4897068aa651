package envoy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/internal/admit"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// tableLimits are those of most tests.
const tableLimits = `
domain: edge
descriptors:
- key: ip
  rate_limit: {unit: minute, requests_per_unit: 3}
- key: ip
  value: 10.0.0.1
  rate_limit: {unit: minute, requests_per_unit: 5}
- key: ip
  value: 10.0.0.2
- key: many
  rate_limit: {unit: hour, requests_per_unit: 100}
- key: banned
  rate_limit: {unit: second, requests_per_unit: 0}
- key: free
  rate_limit: {unlimited: true}
- key: seen
  shadow_mode: true
  rate_limit: {unit: minute, requests_per_unit: 1}
- key: q1
  quota_mode: true
  rate_limit: {unit: minute, requests_per_unit: 1}
- key: q2
  quota_mode: true
  rate_limit: {unit: minute, requests_per_unit: 2}
- key: path
  value: /a/*/z
  rate_limit: {unit: minute, requests_per_unit: 1}
- key: file
  value: f*
  share_threshold: true
  rate_limit: {unit: minute, requests_per_unit: 2}
- key: user
  descriptors:
  - key: plan
    value: gold
    rate_limit: {unit: minute, requests_per_unit: 2, name: gold}
- key: special
  descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 9, replaces: [{name: gold}]}
- key: named
  rate_limit: {unit: week, unit_multiplier: 2, requests_per_unit: 7, name: two_weeks}
`

// What envoyproxy/ratelimit's tests of its service check, and what Weir does besides: each case on a new server.
func TestDecisions(t *testing.T) {
	t.Parallel()
	for name, transcript := range map[string]string{
		"each value has its own": `
			ip=1 -> OK, ok 2/3
			ip=1 -> OK, ok 1/3
			ip=1 -> OK, ok 0/3
			ip=1 -> OVER, over 0/3
			ip=2 -> OK, ok 2/3`,
		"the most specific limit": `
			ip=10.0.0.1 -> OK, ok 4/5
			ip=10.0.0.2 -> OK, ok`,
		"no limit": `
			nothing=1 -> OK, ok
			ip=1 more=2 -> OK, ok
			user=a -> OK, ok
			user=a plan=silver -> OK, ok
			| hits 1 -> OK, ok`,
		"nested": `
			user=a plan=gold -> OK, ok 1/2
			user=b plan=gold -> OK, ok 1/2
			user=a plan=gold | hits 2 -> OVER, over 0/2`,
		"none passes": `
			banned=x -> OVER, over 0/0
			banned=x; many=1 -> OVER, over 0/0, ok 100/100
			many=1 -> OK, ok 99/100`,
		"unlimited": `
			free=x -> OK, ok`,
		"shadow": `
			seen=x -> OK, ok 0/1
			seen=x -> OK, ok 0/1
			seen=x; many=1 -> OK, ok 0/1, ok 99/100`,
		"a denied descriptor takes nothing of the others": `
			ip=1 | hits 3 -> OK, ok 0/3
			many=1; ip=1 -> OVER, ok 100/100, over 0/3
			many=1 -> OK, ok 99/100`,
		"two of one key": `
			ip=1; ip=1 -> OK, ok 2/3, ok 1/3
			ip=1; ip=1 -> OVER, ok 1/3, over 0/3
			ip=1 -> OK, ok 0/3`,
		"a check takes nothing": `
			ip=1 | hits 0 -> OK, ok 3/3
			ip=1 | hits 2 -> OK, ok 1/3
			ip=1 | hits 0 -> OK, ok 1/3
			ip=1 -> OK, ok 0/3
			ip=1 | hits 0 -> OVER, over 0/3
			ip=1 | hits 0; many=1 -> OVER, over 0/3, ok 100/100
			ip=2 | hits 0; many=1 -> OK, ok 3/3, ok 99/100`,
		"what is more than is left uses it up": `
			ip=1 -> OK, ok 2/3
			ip=1 | hits 3; many=1 -> OVER, over 0/3, ok 100/100
			ip=1 -> OVER, over 0/3
			ip=2 | hits 4000000000 -> OVER, over 0/3
			ip=2 -> OVER, over 0/3`,
		"quotas deny together": `
			q1=x; q2=x; many=1 -> OK, ok 0/1, ok 1/2, ok 99/100
			q1=x; q2=x; many=1 -> OK, over 0/1, ok 0/2, ok 98/100
			q1=x; q2=x; many=1 -> OVER, over 0/1, over 0/2, ok 98/100
			many=1 -> OK, ok 97/100
			q1=x; ip=1 -> OVER, over 0/1, ok 3/3
			q1=y; ip=1 | hits 4 -> OVER, ok 1/1, over 0/3`,
		"wildcards": `
			path=/a/b/z -> OK, ok 0/1
			path=/a//z -> OK, ok 0/1
			path=/a/z -> OK, ok
			path=/a/b/y -> OK, ok
			path=/a/b/z -> OVER, over 0/1`,
		"values that count together": `
			file=f1 -> OK, ok 1/2
			file=f2 -> OK, ok 0/2
			file=f3 -> OVER, over 0/2
			file=g -> OK, ok`,
		"replaces": `
			user=a plan=gold; special=y user=a -> OK, ok, ok 8/9
			user=a plan=gold -> OK, ok 1/2`,
		"limits that Envoy brings along": `
			ip=1 | limit 2/MINUTE -> OK, ok 1/2
			ip=1 | limit 2/MINUTE, hits 2 -> OVER, over 0/2
			ip=1 | limit 2/MINUTE -> OVER, over 0/2
			ip=1 -> OK, ok 2/3
			anything=1 | limit 0/DAY -> OVER, over 0/0
			ip=1 | limit 2/YEAR -> error: rpc error: code = InvalidArgument desc = invalid_limit: per of a limit sent with a request, and per * burst / n, are at most 1d: write a policy for a longer one, or raise --max-inline-per
			ip=1 | limit 2/UNKNOWN -> error: rpc error: code = InvalidArgument desc = invalid_limit: a descriptor brings a limit along without a unit`,
		"refunds": `
			ip=1 | hits 3 -> OK, ok 0/3
			ip=1 -> OVER, over 0/3
			ip=1 | refund, hits 2 -> OK, ok 2/3
			ip=1; ip=1 | refund -> OK, ok 2/3, ok 3/3
			ip=1 | refund, hits 9 -> OK, ok 3/3
			nothing=1 | refund -> OK, ok`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, by := range []admit.Algorithm{admit.Window, admit.Fixed, admit.GCRA} {
				newTestServer(t, options{limits: tableLimits, cfg: Config{Algorithm: by}}).says("edge", transcript)
			}
		})
	}
}

func TestRequestsThatAreWrong(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, options{limits: tableLimits})
	for _, r := range []*pb.RateLimitRequest{{}, newRequest(t, "", 0, "ip=1"), newRequest(t, "edge", 0, ""), newRequest(t, "edge", 0, strings.Repeat("ip=1;", 257)), newRequest(t, "edge", 0, strings.Repeat("ip=1;", 65))} {
		if _, err := s.should(t.Context(), r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%d descriptors: %v", len(r.Descriptors), err)
		}
	}
	s.says("other", `
		ip=1 -> OK, ok
		ip=1 | limit 1/MINUTE -> OK, ok`)
	if got := s.askFor("edge", 2, "ip=1; many=1 | hits 5"); got != "OK, ok 1/3, ok 95/100" {
		t.Error(got)
	}
	if got := s.Figures(); got.Failed != 5 || got.Requests[0].Count != 8 || got.Open != 1 {
		t.Errorf("%+v", got)
	}
}

// The answer has the limit, what is left and when it is whole again.
func TestAnswer(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, options{limits: tableLimits, cfg: Config{Algorithm: admit.Fixed}})
	s.now.Store(int64(20 * time.Second))
	answer, err := s.should(t.Context(), newRequest(t, "edge", 0, "ip=1; named=x; free=y; nothing=z"))
	if err != nil {
		t.Fatal(err)
	}
	ip, named, free, nothing := answer.Statuses[0], answer.Statuses[1], answer.Statuses[2], answer.Statuses[3]
	if l := ip.CurrentLimit; l.Unit != pb.RateLimitResponse_RateLimit_MINUTE || l.Name != "" || l.UnitMultiplier != nil || ip.DurationUntilReset.AsDuration() != 40*time.Second {
		t.Error(ip)
	}
	if l := named.CurrentLimit; l.Unit != pb.RateLimitResponse_RateLimit_WEEK || l.Name != "two_weeks" || l.UnitMultiplier.GetValue() != 2 || named.LimitRemaining != 6 {
		t.Error(named)
	}
	if free.CurrentLimit != nil || free.LimitRemaining != 1<<32-1 || nothing.CurrentLimit != nil || nothing.LimitRemaining != 0 {
		t.Error(free, nothing)
	}
	s.now.Store(int64(60 * time.Second))
	if got := s.ask("edge", "ip=1"); got != "OK, ok 2/3" {
		t.Errorf("in the next minute: %s", got)
	}
}

// The window of Weir has no edge: a fixed one admits twice as much around it.
func TestAlgorithms(t *testing.T) {
	t.Parallel()
	for by, want := range map[admit.Algorithm]string{admit.Window: "OVER, over 0/3", admit.Fixed: "OK, ok 2/3"} {
		s := newTestServer(t, options{limits: tableLimits, cfg: Config{Algorithm: by}})
		s.now.Store(int64(59 * time.Second))
		s.says("edge", "ip=1 | hits 3 -> OK, ok 0/3")
		s.now.Store(int64(61 * time.Second))
		s.says("edge", "ip=1 -> "+want)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ headers, descriptors, want string }{
		{HeadersDraft, "ip=1; many=1", `ratelimit-policy: "rls/edge/ip";q=3;w=60, "rls/edge/many";q=100;w=3600` + "\n" + `ratelimit: "rls/edge/ip";r=2;t=60, "rls/edge/many";r=99;t=3600`},
		{HeadersDraft, "ip=1 | hits 9", `ratelimit-policy: "rls/edge/ip";q=3;w=60` + "\n" + `ratelimit: "rls/edge/ip";r=0;t=60` + "\nretry-after: 60\nweir-denial: 13 digits"},
		{HeadersDraft, "banned=1", ""},
		{HeadersDraft, "free=1; seen=1; nothing=1", ""},
		{HeadersNone, "ip=1", ""},
	} {
		s := newTestServer(t, options{limits: tableLimits, cfg: Config{Headers: c.headers}})
		answer, err := s.should(t.Context(), newRequest(t, "edge", 0, c.descriptors))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range answer.ResponseHeadersToAdd {
			if h.Key == "weir-denial" {
				h.Value = fmt.Sprint(len(h.Value), " digits")
			}
			got = append(got, h.Key+": "+h.Value)
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("%s, %s:\n%s\nwant\n%s", c.headers, c.descriptors, text, c.want)
		}
	}
}

// Without limits of its own the listener asks the policies, by the key of the descriptor.
func TestPolicies(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, options{policies: `
limits:
- {name: ip, keys: "edge:ip={ip}", limit: 2, per: 10m}
- {name: all, keys: "edge:ip=*", by: "edge", limit: 3, per: 90ms}
- {name: tried, keys: "edge:ip=*", mode: shadow, limit: 1, per: 1h}
`})
	s.says("edge", `
		ip=1 -> OK, ok 1/2
		ip=1 -> OK, ok 0/2
		ip=2; nothing=3 -> OK, ok 0/3, ok
		ip=3 -> OVER, over 0/3
		ip=1 | hits 0 -> OVER, over 0/2`)
	answer, err := s.should(t.Context(), newRequest(t, "edge", 0, "ip=1 | hits 0"))
	if l := answer.GetStatuses()[0].GetCurrentLimit(); err != nil || l.Unit != pb.RateLimitResponse_RateLimit_MINUTE || l.UnitMultiplier.GetValue() != 10 || l.Name != "ip" {
		t.Error(answer, err)
	}
}
