package envoy

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/service/access"
)

const valuesLimits = `
domain: edge
descriptors:
- key: route
  value_to_metric: true
  descriptors:
  - key: method
    value_to_metric: true
    descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 1}}]
- key: ip
  detailed_metric: true
  metadata: {team: web, net: {zone: a}}
  rate_limit: {unit: minute, requests_per_unit: 1}
- key: plain
  rate_limit: {unit: minute, requests_per_unit: 1}
`

// Decisions are counted by the values that value_to_metric and detailed_metric name.
func TestDecisionsAreCountedByValues(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, options{limits: valuesLimits})
	s.says("edge", `
		route=api method=GET user=1 -> OK, ok 0/1
		route=api method=GET user=2 -> OK, ok 0/1
		route=api method=GET user=2 -> OVER, over 0/1
		ip=10.0.0.1 -> OK, ok 0/1
		plain=1 -> OK, ok 0/1`)
	for key, want := range map[string]uint64{
		"limit:rls/edge/route/method/user:allowed": 2, "limit:rls/edge/route/method/user:denied": 1,
		"limit:rls/edge/route/method/user:allowed:route=api:method=GET:user": 2, "limit:rls/edge/route/method/user:denied:route=api:method=GET:user": 1,
		"limit:rls/edge/ip:allowed:ip=10.0.0.1": 1, "limit:rls/edge/plain:allowed": 1, "limit:rls/edge/plain:allowed:plain": 0, "*": 0,
	} {
		if got, err := s.engine.Count(key, time.Minute); err != nil || got.Estimate != want {
			t.Errorf("%s: %v, %v, want %d", key, got, err, want)
		}
	}
}

// A reader learns of the limits of this listener as of policies: what it may, by name and keys.
func TestLimitsAreListed(t *testing.T) {
	t.Parallel()
	s := locked(t, options{limits: valuesLimits + "- {key: free, rate_limit: {unlimited: true}}\n- {key: none, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 0}}\n"}, map[string]string{
		"all": "permissions: [{role: read}]", "some": `permissions: [{role: read, keys: ["edge:ip="]}]`,
	})
	for name, want := range map[string][]string{
		"all":  {"rls/edge/route/method/user 1/1m0s edge:route={v1}:method={v2}:user={v3} enforce", "rls/edge/ip 1/1m0s edge:ip={v1} enforce", "rls/edge/plain 1/1m0s edge:plain={v1} enforce", "rls/edge/none 0/1s edge:none={v1} shadow"},
		"some": {"rls/edge/ip 1/1m0s edge:ip={v1} enforce"},
	} {
		answer, err := s.service.Limits(t.Context(), s.caller(name), time.Minute)
		if err != nil || len(answer.Limits) != len(want) {
			t.Fatalf("%s: %+v, %v", name, answer.Limits, err)
		}
		for i, l := range answer.Limits {
			text := l.Name + " " + fmt.Sprintf("%d/%v", l.Limit, l.Per()) + " " + l.Keys + " " + l.Mode
			if text != want[i] || l.Listener != "rls" {
				t.Errorf("%s: %s of listener %q, want %s", name, text, l.Listener, want[i])
			}
		}
	}
}

func (s *testServer) caller(name string) access.Caller {
	s.Helper()
	c, err := s.service.WithToken(access.CallerAt("127.0.0.1:1"), "weir_"+name+"_s")
	if err != nil {
		s.Fatal(err)
	}
	return c
}
