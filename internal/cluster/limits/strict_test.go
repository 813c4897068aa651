package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// monthly is a quota by the calendar, which is strict unless where says otherwise.
const monthly = "limits:\n  - {name: m, keys: \"h:*\", limit: 10, per: month, tz: Europe/Berlin, anchor: 17}\n"

const hourly = "limits:\n  - {name: h, keys: \"h:*\", limit: 10, per: 1h, where: strict}\n"

// Whatever node is asked, one decides: and after it is gone, the next one knows what
// it admitted. An answer that is lost on a slow machine has taken its admission, so
// there may be fewer, never more. So it is with permits.
func TestOneDecides(t *testing.T) {
	t.Parallel()
	for name, policies := range map[string]string{"window": hourly, "calendar": monthly} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			oneDecides(t, policies)
		})
	}
}

func oneDecides(t *testing.T, policies string) {
	c := newCluster(t, policies, 5*time.Millisecond)
	for i := range ClusterSize {
		c.Decided(i, "h:a")
	}
	for n := range 6 {
		if d := c.TakeDecided(n%3, "h:a"); !d.Allowed && n+c.Lost() < 10 || d.Results[0].Remaining > uint64(9-n) {
			t.Fatalf("number %d, %d answers lost: %+v", n+1, c.Lost(), d.Results)
		}
	}
	c.takePermits(t)
	first := c.holder(t, "h:a")
	c.Crash(first)
	second := c.holder(t, "h:a")
	asking := 3 - first - second // the third node
	c.Decided(asking, "h:a")
	if d := c.TakeDecided(asking, "h:a"); !d.Allowed && 6+c.Lost() < 10 || d.Results[0].Remaining > 3 {
		t.Fatalf("after a crash, %d answers lost: %+v: want the seventh of ten", c.Lost(), d.Results)
	}
	c.knowsPermits(t, second, asking)
	c.Start()
	c.Decided(first, "h:a")
	c.Leave(second)
	c.Decided(first, "h:a")
	for n := range 4 {
		if d := c.TakeDecided(first, "h:a"); d.Allowed && n == 3 {
			t.Fatalf("after a restart, number %d: %+v", n+8, d.Results)
		}
	}
	for i := range ClusterSize {
		if n := c.At(i); n != nil {
			t.Logf("node %d: %+v", i+1, n.Decider.OwnerStats())
		}
	}
}

// Away: the whole cluster is one node, which can't decide.
func TestAwayCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, `limits:
  - {name: closed, keys: "c:*", limit: 9, per: 1h, where: strict}
  - {name: open, keys: "o:*", limit: 9, per: 1h, where: strict, away: open}
`, 5*time.Millisecond)
	c.Decided(0, "c:k")
	c.Crash(1)
	c.Crash(2)
	admitted := map[string]int{}
	until := time.Now().Add(transporttest.Patience)
	for time.Now().Before(until) && admitted["o:k"] < 20 {
		for _, key := range []string{"c:k", "o:k"} {
			d := c.Take(0, key)
			if d.Allowed {
				admitted[key]++
			}
			if !d.Allowed && d.Results[0].Away == "closed" && d.RetryAfter != time.Second {
				t.Errorf("%s: again in %v", key, d.RetryAfter)
			}
		}
	}
	// A lease may have been here still: then the first answers are its holder's, but
	// nothing of them can be journaled.
	if fmt.Sprint(admitted) != "map[o:k:20]" {
		t.Errorf("admitted %v, want 20 of o", admitted)
	}
	if got := c.At(0).Live.Away("open"); got.Open < 20 || got.Closed != 0 {
		t.Errorf("%+v", got)
	}
}
