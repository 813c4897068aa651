package client_test

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
)

// What is reserved, settled, given back, granted and reset at a real server.
func TestRealChanges(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	c := limited(t, "limits:\n  - {name: api/tokens, keys: \"team:*\", limit: 100, per: 1h}\n", now)
	ctx, key := t.Context(), "team:a/b"
	made, err := c.Reserve(ctx, client.Reservation{TTL: time.Minute, GiveBack: true}, client.Check{Key: key, N: 80})
	if err != nil || made.ID == "" || !made.Allowed || made.Limits[0].Remaining != 20 {
		t.Fatalf("%+v, %v", made, err)
	}
	if denied, err := c.Reserve(ctx, client.Reservation{}, client.Check{Key: key, N: 30}); err != nil || denied.Allowed || denied.ID != "" {
		t.Errorf("a denial: %+v, %v", denied, err)
	}
	for _, again := range []bool{false, true} {
		if done, err := c.Settle(ctx, made.ID, 30, false); err != nil || done.Again != again || done.Limits[0].Used != 30 {
			t.Errorf("settled: %+v, %v", done, err)
		}
	}
	if back, err := c.Refund(ctx, time.Time{}, client.Check{Key: key, N: 10}); err != nil || back.Refunded != 10 || back.Limits[0].Remaining != 80 {
		t.Errorf("refund: %+v, %v", back, err)
	}
	if grant, err := c.Grant(ctx, "api/tokens", key, 5, now.Add(time.Hour)); err != nil || grant.Remaining != 85 {
		t.Errorf("grant: %+v, %v", grant, err)
	}
	if reset, err := c.ResetLimit(ctx, "api/tokens", key); err != nil || !reset.Was || reset.Remaining != 100 {
		t.Errorf("reset: %+v, %v", reset, err)
	}
}

// Each limit of a reservation is settled by its own cost.
func TestSettleCosts(t *testing.T) {
	t.Parallel()
	c := limited(t, "limits:\n  - {name: rpm, keys: \"llm:*\", limit: 10, per: 1h}\n  - {name: tpm, keys: \"llm:*\", limit: 100, per: 1h, cost: tokens}\n", time.Unix(1_700_000_000, 0))
	made, err := c.Reserve(t.Context(), client.Reservation{}, client.Check{Key: "llm:a", N: 1, Costs: map[string]uint64{"tokens": 80, "requests": 3}})
	if err != nil || made.ID == "" || len(made.Limits) != 2 {
		t.Fatalf("%+v, %v", made, err)
	}
	done, err := c.SettleCosts(t.Context(), made.ID, map[string]uint64{"tokens": 110, "requests": 1}, true)
	if err != nil || len(done.Limits) != 2 || done.Limits[0].Used != 1 || done.Limits[1].Used != 110 || done.Limits[1].Remaining != 0 {
		t.Errorf("%+v, %v", done, err)
	}
}
