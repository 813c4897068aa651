package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
)

// The client against a real server, with each compression.
func TestRealServer(t *testing.T) {
	for _, compression := range []client.Compression{client.None, client.Gzip, client.Zstd} {
		t.Run("compression "+string(compression), func(t *testing.T) {
			n := nodetest.Start(t, func(cfg *node.Config) { cfg.Engine.Clock = weir.EventClock })
			c, err := client.New(n.Addr(), client.Options{Compression: compression})
			if err != nil {
				t.Fatal(err)
			}
			exercise(t, c)
		})
	}
}

func exercise(t *testing.T, c *client.Client) {
	ctx, now := t.Context(), time.Unix(1_700_000_000, 0)
	receipt, err := c.Send(ctx, []client.Hit{
		{Key: "a b\n\"", N: 3, At: now}, {Key: "c", At: now.Add(-time.Minute)}, {Key: "*", At: now}, {Key: "", At: now},
	})
	if err != nil || receipt.Counted != 4 || receipt.Rejected != 2 || receipt.Reasons[0].Line != 3 || receipt.Reasons[0].Code != "reserved_key" {
		t.Errorf("send: %+v, %v", receipt, err)
	}
	counts, err := c.Count(ctx, client.CountQuery{Keys: []string{"a b\n\"", "c"}, Windows: []time.Duration{time.Second, 5 * time.Minute}})
	if err != nil || len(counts) != 4 || counts[0].Estimate != 3 || counts[2].Estimate != 0 || counts[3].Estimate != 1 || !counts[3].At.Equal(now) || !counts[3].Exact {
		t.Errorf("count: %+v, %v", counts, err)
	}
	rates, err := c.Rate(ctx, client.CountQuery{Keys: []string{weir.AllKeys}, Windows: []time.Duration{100 * time.Second}, At: now})
	if err != nil || len(rates) != 1 || rates[0].PerSecond.String() != "0.040" || rates[0].WindowSeconds != 100 {
		t.Errorf("rate: %+v, %v", rates, err)
	}
	top, err := c.Top(ctx, client.TopQuery{Window: time.Hour, N: 1, Prefix: "a", At: now})
	if err != nil || len(top.Keys) != 1 || top.Keys[0].Key != "a b\n\"" || top.Keys[0].Estimate != 3 {
		t.Errorf("top: %+v, %v", top, err)
	}
	series, err := c.Series(ctx, client.SeriesQuery{Key: "c", From: now.Add(-2 * time.Minute), To: now, Step: time.Minute})
	if err != nil || len(series.Points) != 2 || series.Points[0].Estimate != 1 || series.Points[1].Estimate != 0 {
		t.Errorf("series: %+v, %v", series, err)
	}
	stats, err := c.Stats(ctx)
	if err != nil || stats.Hits != 4 || stats.Newest == nil || !stats.Newest.Equal(now) {
		t.Errorf("stats: %+v, %v", stats, err)
	}
	keys, err := c.Keys(ctx, client.KeysQuery{Limit: 1})
	if err != nil || len(keys.Keys) != 1 || keys.Keys[0] != "a b\n\"" || keys.Next != keys.Keys[0] {
		t.Errorf("keys: %+v, %v", keys, err)
	}
	if keys, err = c.Keys(ctx, client.KeysQuery{Prefix: "c", After: "a"}); err != nil || len(keys.Keys) != 1 || keys.Next != "" {
		t.Errorf("keys: %+v, %v", keys, err)
	}
	var refused *client.Error
	if _, err = c.Count(ctx, client.CountQuery{Keys: []string{"c"}, Windows: []time.Duration{1500 * time.Millisecond}}); !errors.As(err, &refused) || refused.Code != "invalid_window" || refused.Field != "window" {
		t.Errorf("a wrong window: %v", err)
	}
	if receipt, err = c.Send(ctx, []client.Hit{{Key: "*"}}); !errors.As(err, &refused) || !refused.NothingCounted() || receipt.Rejected != 1 {
		t.Errorf("nothing counted: %+v, %v", receipt, err)
	}
}

// A key is deleted under the very name it was hit by.
func TestDelete(t *testing.T) {
	n := nodetest.Start(t, nil)
	c, err := client.New(n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "url:/home", "a//b/../c", ".", "..", "q?x#y%20", "é \n", "{key}"} {
		if err := n.Engine().Hit(key); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), key); err != nil || n.Engine().Stats().Keys != 0 {
			t.Errorf("delete %q: %v, %d keys are left", key, err, n.Engine().Stats().Keys)
		}
	}
	var refused *client.Error
	if err := c.Delete(t.Context(), "a"); !errors.As(err, &refused) || refused.Code != "unknown_key" {
		t.Errorf("a key that is gone: %v", err)
	}
}

// A server that takes fewer lines of a body than a batch has gets all of it, once.
func TestSmallBatches(t *testing.T) {
	n := nodetest.Start(t, func(cfg *node.Config) { cfg.Service.MaxBatch = 100 })
	c, err := client.New(n.Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hits := make([]client.Hit, 1001)
	for i := range hits {
		hits[i].Key = "a"
	}
	hits[1000].Key = ""
	receipt, err := c.Send(t.Context(), hits)
	if err != nil || receipt.Counted != 1000 || len(receipt.Reasons) != 1 || receipt.Reasons[0].Line != 1001 || n.Engine().Stats().Hits != 1000 {
		t.Errorf("%+v, %v; %d counted", receipt, err, n.Engine().Stats().Hits)
	}
}
