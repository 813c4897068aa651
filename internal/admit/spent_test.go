package admit

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

// What keys use of a policy with a cost is counted: what was taken, or settled, and once.
func TestSpent(t *testing.T) {
	t.Parallel()
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	set, err := policy.Parse("policies.yaml", []byte("limits:\n- {name: usd, keys: \"team:*\", limit: 1000, per: 1h, cost: microusd}\n- {name: failed, keys: \"team:*\", limit: 1000, per: 1h, cost: tokens, count_if: status >= 500}\n- {name: all, keys: \"team:*\", limit: 100, per: 1h}\n"))
	if err != nil {
		t.Fatal(err)
	}
	live, err := NewLive(e, set)
	if err != nil {
		t.Fatal(err)
	}
	want := func(usd, failed uint64) {
		t.Helper()
		for name, n := range map[string]uint64{"usd": usd, "failed": failed, "all": 0} {
			if c, err := e.Count("limit:"+name+":spent:team:7", time.Hour); err != nil || c.Estimate != n {
				t.Errorf("%s: %d spent, want %d (%v)", name, c.Estimate, n, err)
			}
		}
	}
	ask := func(usd uint64) []Request {
		return []Request{{Key: "team:7", N: 1, Costs: []Cost{{"microusd", usd}, {"tokens", 5}}}}
	}
	var d Decision
	if err := live.Take(ask(300), &d); err != nil || !d.Allowed {
		t.Fatal(d.Allowed, err)
	}
	want(300, 5)
	if err := live.Take(ask(900), &d); err != nil || d.Allowed {
		t.Fatal(d.Allowed, err)
	}
	want(300, 5)
	until := time.Now().Add(time.Hour)
	if err := live.Reserve(ask(500), engine.Reservation{ID: "a", Until: until}, &d); err != nil || !d.Allowed {
		t.Fatal(d.Allowed, err)
	}
	want(300, 5)
	for range 2 {
		if _, err := live.Settle("a", Used{Costs: []Cost{{"microusd", 200}, {"tokens", 3}}}, false, nil); err != nil {
			t.Fatal(err)
		}
		want(500, 8)
	}
	for id, status := range map[string]uint64{"good": 200, "bad": 503} {
		if reserved, err := live.TakeForOutcome(ask(10), engine.Reservation{ID: id, Until: until}, &d); err != nil || !reserved {
			t.Fatal(reserved, err)
		}
		if _, err := live.Settle(id, Used{Costs: []Cost{{api.Outcome, status}, {"tokens", 4}}}, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	want(520, 12)
}
