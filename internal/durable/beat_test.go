package durable

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// Nodes may have any flush interval: nobody is late for one of a minute, durable hits do
// not wait for it, and one that dies is named by why.
func TestFlushIntervalsOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.cfgs[1].FlushEvery, c.cfgs[2].FlushEvery = 5*time.Second, time.Minute
	c.start()
	c.nodes[2].hit("k", 1_000_000, 3)
	c.nodes[2].sync()
	c.agree(map[string]uint64{"k": 3})
	transporttest.Eventually(t, "all are here", func() bool {
		late := 0
		for _, node := range c.nodes {
			_, list := node.j.LateOrigins()
			late += len(list)
		}
		return late == 0
	})
	began := time.Now()
	transporttest.Eventually(t, "nobody is late, and nobody believes that it was away, for longer than one may be silent", func() bool {
		least := time.Hour
		for _, node := range c.nodes {
			for _, o := range node.j.Origins() {
				if !o.Self {
					least = min(least, o.Heard.Sub(began))
				}
			}
			if _, late := node.j.LateOrigins(); len(late) > 0 || !node.j.others.keeper.Current() {
				t.Logf("from the beginning: late %+v", late)
				began = time.Now() // the machine does other things: for as long once more
				return false
			}
		}
		return least > replica.LateAfter+replica.HeartbeatEvery
	})
	c.nodes[1].crash()
	c.nodes[1] = nil
	transporttest.Eventually(t, "n2 is named", func() bool {
		_, late := c.nodes[0].j.LateOrigins()
		return slices.ContainsFunc(late, func(o replica.OriginStatus) bool {
			return o.Node == "n2" && o.Why == replica.Silent && !o.Since.IsZero()
		}) &&
			slices.ContainsFunc(c.nodes[0].j.Alarms(), func(a api.Alarm) bool { return a.Code == "node_late" && !a.Refusing })
	})
}
