package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// limited asks a real server with the policies of a file, whose clock stands still.
func limited(t *testing.T, policies string, at time.Time) *client.Client {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	n := nodetest.Start(t, func(cfg *node.Config) {
		cfg.Engine.Now = func() time.Time { return at }
		cfg.Policies.File = file
	})
	c, err := client.New(n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Decisions of a real server.
func TestRealLimits(t *testing.T) {
	c := limited(t, "limits:\n  - {name: api/login, keys: \"login:*\", limit: 2, per: 1m}\n", time.Unix(1_700_000_000, 0))
	ctx, bob := t.Context(), client.Check{Key: "login:bob"}

	d, err := c.Allow(ctx, bob, bob)
	if err != nil || !d.Allowed || len(d.Limits) != 2 || d.Limits[1].Remaining != 0 || d.Limits[0].Name != "api/login" {
		t.Errorf("both: %+v, %v", d, err)
	}
	for range 2 { // nothing is taken by the first
		if d, err = c.Peek(ctx, bob); err != nil || d.Allowed || d.RetryAfter() != time.Minute {
			t.Errorf("denied: %+v, %v", d, err)
		}
	}
	own := client.Check{Key: "x", Inline: &client.Limit{N: 1, Per: time.Second}}
	if d, err = c.Allow(ctx, own, bob); err != nil || d.Allowed {
		t.Errorf("none: %+v, %v", d, err)
	}
	if d, err = c.Allow(ctx, own); err != nil || !d.Allowed {
		t.Errorf("the one that was not denied before: %+v, %v", d, err)
	}
	if d, err = c.Allow(ctx, client.Check{Key: "other"}); err != nil || !d.Allowed || !d.Unmatched {
		t.Errorf("unmatched: %+v, %v", d, err)
	}
	var refused *client.Error
	if _, err = c.Allow(ctx, client.Check{Key: "login:bob", N: 3}); !errors.As(err, &refused) || refused.Code != "invalid_count" {
		t.Errorf("more than the burst: %v", err)
	}
	limits, err := c.Limits(ctx, time.Hour)
	if err != nil || limits.WindowSeconds != 3600 || limits.File == nil || len(limits.Limits) != 1 || limits.Limits[0].Per() != time.Minute || limits.Limits[0].Allowed.Estimate != 2 {
		t.Errorf("limits: %+v, %v", limits, err)
	}
	keys, err := c.LimitKeys(ctx, "api/login", 0)
	if err != nil || len(keys.Keys) != 1 || keys.Keys[0].Key != "login:bob" || keys.Keys[0].Share != 1 || keys.Keys[0].Reset() != time.Minute {
		t.Errorf("keys: %+v, %v", keys, err)
	}
	if _, err = c.LimitKeys(ctx, "..", 1); !errors.As(err, &refused) || refused.Code != "unknown_limit" {
		t.Errorf("an unknown limit: %v", err)
	}
}
