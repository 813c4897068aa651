package limits_test

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/limits"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// Cold keys are decided one by one: whatever node is asked, the burst is shared, and is known after
// the holder is gone.
func TestColdKeys(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: h, keys: \"h:*\", limit: 10, per: 1h, where: leased}\n", 5*time.Millisecond)
	for i := range limits.ClusterSize {
		c.Decided(i, "h:a")
	}
	admitted := 0
	for n := range 6 {
		if d := c.TakeDecided(n%3, "h:a"); d.Allowed {
			admitted++
		} else if n+c.Lost() < 10 {
			t.Fatalf("number %d, %d answers lost: %+v", n+1, c.Lost(), d.Results)
		}
	}
	c.Crash(0)
	for n := range 6 {
		if c.TakeDecided(1+n%2, "h:a").Allowed {
			admitted++
		}
	}
	t.Logf("%d of 10 an hour admitted", admitted) // what the node that crashed may have granted is used for an hour
	if admitted > 10 {
		t.Errorf("%d of 10 an hour admitted", admitted)
	}
}

// A request that asks for a key twice is one of two admissions, all or none.
func TestAKeyTwice(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: h, keys: \"h:*\", limit: 10, per: 1h, where: leased}\n", 5*time.Millisecond)
	c.Decided(1, "h:a")
	var d admit.Decision
	tries := 0
	transporttest.Eventually(t, "a key that is asked for twice is decided", func() bool {
		tries++
		if err := c.At(1).Live.Take([]admit.Request{{Key: "h:a", N: 2}, {Key: "h:a", N: 3}}, &d); err != nil {
			t.Fatal(err)
		}
		return d.Results[0].Away == "" && d.Results[1].Away == ""
	})
	if !d.Allowed && tries == 1 { // what was asked for in vain before may be used
		t.Errorf("%+v", d.Results)
	}
	transporttest.Eventually(t, "no more than the burst is decided", func() bool {
		if err := c.At(1).Live.Take([]admit.Request{{Key: "h:a", N: 3}, {Key: "h:a", N: 3}}, &d); err != nil {
			t.Fatal(err)
		}
		return d.Results[0].Away == "" && d.Results[1].Away == ""
	})
	if d.Allowed {
		t.Errorf("11 of 10: %+v", d.Results)
	}
}

// A key that is asked for all the time is decided at the nodes that are asked.
func TestHotKey(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: m, keys: \"m:*\", limit: 600_000, per: 10s, where: leased}\n", 100*time.Millisecond)
	for i := range limits.ClusterSize {
		c.Decided(i, "m:a")
	}
	transporttest.Eventually(t, "a second without messages and denials", func() bool { // a machine that is busy has others between
		before := c.At(1).Decider.Stats()
		admitted, denied := 0, 0
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			for range 100 {
				if c.Take(1, "m:a").Allowed {
					admitted++
				} else {
					denied++
				}
			}
			<-time.After(10 * time.Millisecond)
		}
		after := c.At(1).Decider.Stats()
		local, asked := after.Local-before.Local, after.Asked-before.Asked
		t.Logf("%d admitted, %d denied, %d locally, %d messages: %+v", admitted, denied, local, asked, after)
		return admitted > 0 && denied <= admitted/100 && asked <= local/20
	})
}

// A key that is banned at one node is denied at all, also where it is decided within what the node was granted.
func TestBannedKey(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: m, keys: \"m:*\", limit: 600_000, per: 10s, where: leased}\n", 5*time.Millisecond)
	for i := range 3 {
		c.Decided(i, "m:a")
		c.TakeDecided(i, "m:a")
	}
	if err := c.At(0).Live.Ban("m", "m:a", time.Hour); err != nil {
		t.Fatal(err)
	}
	if d := c.Take(0, "m:a"); d.Allowed {
		t.Errorf("the node that bans: %+v", d.Results)
	}
	for i := range 3 {
		transporttest.Eventually(t, "the others deny it", func() bool { d := c.Take(i, "m:a"); return !d.Allowed && d.Results[0].Banned })
	}
	if d := c.TakeDecided(1, "m:b"); !d.Allowed {
		t.Errorf("another key: %+v", d.Results)
	}
	if was, err := c.At(2).Live.Unban("m", "m:a"); !was || err != nil {
		t.Errorf("%v, %v", was, err)
	}
	for i := range 3 {
		transporttest.Eventually(t, "all let it pass again", func() bool { return c.Take(i, "m:a").Allowed })
	}
}
