package durable

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/limit"
)

// Three nodes, of which one is two hours behind and one a year ahead: what each of them
// admits of a shared limit counts at all, and its hits make nothing too late.
func TestClocksOfNodesDiffer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	offs := []time.Duration{0, -2 * time.Hour, 365 * 24 * time.Hour}
	c.engineOf = func(i int) engine.Config { return clockConfig(offs[i]) }
	c.start()
	limits := c.limits(limit.WhereLeased, "hourly", engine.Limit{N: 5, Per: time.Hour})
	for i, node := range c.nodes {
		if v, err := limits[i].Take("k", 1); err != nil || !v.Allowed {
			t.Fatalf("node %d: %+v, %v", i+1, v, err)
		}
		if err := node.e.Hit("h"); err != nil {
			t.Fatalf("node %d: %v", i+1, err)
		}
		node.sync()
	}
	for i, node := range c.nodes {
		transporttest.Eventually(t, "all know three admissions", func() bool {
			v, err := limits[i].Peek("k", 1)
			return err == nil && v.Remaining == 2
		})
		for _, key := range []string{"h", "other"} {
			if outcome, err := node.e.HitAt(node.j.now(), key, 1); err != nil || outcome == engine.TooLate {
				t.Errorf("node %d: %s: %v, %v", i+1, key, outcome, err)
			}
		}
	}
}

// One of three nodes has a clock that is wrong from its start: it counts by that of the
// others, says so, and is as fresh as they are. So it does when its clock is set wrong

// later, and when it is right again it says nothing more.
func TestOneClockIsWrong(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	var off atomic.Int64
	off.Store(int64(365 * 24 * time.Hour))
	c.engineOf = func(i int) engine.Config {
		if i < 2 {
			return clockConfig(0)
		}
		cfg := clockConfig(0)
		cfg.Now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
		return cfg
	}
	c.start()
	wrong := c.nodes[2]
	for n, by := range []time.Duration{365 * 24 * time.Hour, -2 * time.Hour, 0} {
		off.Store(int64(by))
		transporttest.Eventually(t, "the node counts by the clock of the others", func() bool {
			alarmed := slices.ContainsFunc(wrong.j.Alarms(), func(a api.Alarm) bool { return a.Code == "clock_wrong" })
			return time.Until(wrong.j.now()).Abs() < replica.ClocksAgree && alarmed == (by != 0) && wrong.j.ClockSound()
		})
		if err := wrong.e.HitN("k", 1); err != nil {
			t.Fatal(err)
		}
		wrong.sync()
		for i, node := range c.nodes {
			transporttest.Eventually(t, "all count its hit now", func() bool {
				got, err := node.e.Count("k", 5*time.Minute)
				return err == nil && got.Lower == uint64(n+1) && got.Upper == got.Lower
			})
			if s := node.e.Stats(); s.Quarantined > 0 && i < 2 && n == 0 {
				t.Errorf("node %d: %+v", i+1, s)
			}
		}
	}
}
