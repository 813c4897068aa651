package main

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// rueidis connects as it does by default, with its cache on the client's side. It says so when the cache is used: Weir tells it nothing.
func TestRueidisByDefault(t *testing.T) {
	t.Parallel()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{open(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if n, err := c.Do(ctx, c.B().Incr().Key("a").Build()).AsInt64(); n != 1 || err != nil {
		t.Errorf("INCR %d, %v", n, err)
	}
	for range 2 {
		if err := c.DoCache(ctx, c.B().Get().Key("a").Cache(), time.Hour).Error(); err == nil || !strings.Contains(err.Error(), "rueidis: Do in place of DoCache") {
			t.Errorf("DoCache: %v", err)
		}
	}
	if n, err := c.Do(ctx, c.B().Get().Key("a").Build()).AsInt64(); n != 1 || err != nil {
		t.Errorf("GET %d, %v", n, err)
	}
}

// rueidis connects, in both versions of the protocol, and counts and limits as its users do.
func TestRueidis(t *testing.T) {
	t.Parallel()
	address := open(t)
	for _, old := range []bool{false, true} {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true, AlwaysRESP2: old, ClientName: "test"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx := t.Context()
		key := map[bool]string{false: "three", true: "two"}[old]
		replies := c.DoMulti(ctx, c.B().Incr().Key(key).Build(), c.B().Expire().Key(key).Seconds(60).Nx().Build(), c.B().Pttl().Key(key).Build())
		for i, most := range []int64{1, 1, time.Minute.Milliseconds()} {
			if n, err := replies[i].AsInt64(); n < 1 || n > most || err != nil {
				t.Errorf("reply %d: %d, %v", i, n, err)
			}
		}
		if n, err := c.Do(ctx, c.B().Arbitrary("HIT").Keys(key).Args("3").Build()).AsInt64(); n != 3 || err != nil {
			t.Errorf("HIT %d, %v", n, err)
		}
		count := c.Do(ctx, c.B().Arbitrary("COUNT").Keys(key).Args("5m").Build())
		if old {
			if answer, err := count.AsIntSlice(); err != nil || answer[1] != 3 {
				t.Errorf("COUNT %v, %v", answer, err)
			}
		} else {
			answer, err := count.ToMap()
			if err != nil {
				t.Fatal(err)
			}
			estimate := answer["estimate"]
			if n, err := estimate.ToInt64(); n != 3 || err != nil {
				t.Errorf("COUNT %v, %v", n, err)
			}
		}
		if answer, err := c.Do(ctx, c.B().Arbitrary("CL.THROTTLE").Keys(key).Args("15", "30", "60").Build()).AsIntSlice(); err != nil || answer[0] != 0 || answer[2] != 15 {
			t.Errorf("CL.THROTTLE %v, %v", answer, err)
		}
		known := rueidis.NewLuaScript(traefikScript(t)).Exec(ctx, c, []string{key}, []string{"0.0001", "2", "2", "1769860800000000", "5000"})
		if answer, err := known.AsStrSlice(); err != nil || answer[0] != "true" || answer[1] != "0" {
			t.Errorf("a script: %v, %v", answer, err)
		}
	}
}
