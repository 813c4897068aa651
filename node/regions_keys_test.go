package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/node"
)

// A region tells the others the keys that --region-keys names. Answers about others name it, and have no upper bound; its own answers have
// all. When it is to tell all, the others have all.
func TestRegionKeys(t *testing.T) {
	t.Parallel()
	w := newRegionsWith(t, 100*time.Millisecond, mesh("eu", "us"), func(cfg *node.Config) {
		if cfg.Regions.Region == "us" {
			cfg.Regions.Keys = []string{"api:"}
		}
	}, "eu", "us")
	for i, key := range []string{"api:x", "user:y"} {
		w.hit(0, key, 1)
		w.hit(1, key, uint64(10*(1+i)))
	}
	w.agree("api:x", 11, 0, 1)
	w.agree("user:y", 21, 1)
	w.agree("user:y", 1, 0)
	asked := func(key string, untold ...string) {
		t.Helper()
		counts, err := w.asks[0].Count(t.Context(), client.CountQuery{Keys: []string{"api:x", key}, Windows: []time.Duration{time.Hour}, ByRegion: true})
		if err != nil {
			t.Fatal(err)
		}
		if told := counts[0]; told.Untold != nil || told.Regions[1].Untold != nil {
			t.Errorf("of a key that is told: %+v", told)
		}
		c := counts[1]
		if !slices.Equal(c.Untold, untold) || len(untold) > 0 && (c.Upper != nil || c.Exact || c.Regions[1].Upper != nil) || !slices.Equal(c.Regions[1].Untold, untold) || c.Regions[0].Untold != nil {
			t.Errorf("%s: %+v", key, c)
		}
	}
	asked("user:y", "us")
	asked("*", "us")
	asked("api:z")
	for prefix, want := range map[string]string{"": "[us]", "api:": "[]", "api:x": "[]", "u": "[us]"} {
		top, err := w.asks[0].Top(t.Context(), client.TopQuery{Window: time.Hour, N: 10, Prefix: prefix})
		keys, err2 := w.asks[0].Keys(t.Context(), client.KeysQuery{Prefix: prefix})
		if err != nil || err2 != nil || fmt.Sprint(top.Untold) != want || fmt.Sprint(keys.Untold) != want {
			t.Errorf("prefix %q: %v and %v, %v, %v", prefix, top.Untold, keys.Untold, err, err2)
		}
	}
	series, err := w.asks[0].Series(t.Context(), client.SeriesQuery{Key: "user:y", Step: time.Minute})
	if err != nil || fmt.Sprint(series.Untold) != "[us]" {
		t.Errorf("%+v, %v", series, err)
	}
	regions, err := w.asks[0].Regions(t.Context())
	if err != nil || fmt.Sprint(regions.Regions[1].Keys) != "[api:]" {
		t.Errorf("%+v, %v", regions, err)
	}
	transporttest.Eventually(t, "eu knows what comes and goes", func() bool {
		regions, err := w.asks[0].Regions(t.Context())
		if err != nil || len(regions.Links) != 1 || len(regions.Pulls) != 1 {
			return false
		}
		in, out := regions.Links[0], regions.Pulls[0]
		return in.Region == "us" && in.Bytes > 0 && in.PerS > 0 && out.Region == "us" && out.Now && out.Bytes > 0 && out.PerS > 0
	})

	w.stop(1)
	w.cfgs[1].Regions.Keys = nil
	w.start(1)
	w.settle("user:y", 21, 0)
	transporttest.Eventually(t, "us tells all", func() bool {
		counts, err := w.asks[0].Count(t.Context(), client.CountQuery{Keys: []string{"user:y"}, Windows: []time.Duration{time.Hour}})
		return err == nil && counts[0].Untold == nil
	})
}
