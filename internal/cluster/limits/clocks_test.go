package limits

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// The holder's clock is two hours behind, or ahead, of the others'. After it has left, the
// next one knows what it admitted: ten an hour, and never more.
func TestHoldersClockIsWrong(t *testing.T) {
	c := newCluster(t, hourly, 5*time.Millisecond)
	for _, wrong := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		key := map[bool]string{true: "h:behind", false: "h:ahead"}[wrong < 0]
		first := c.holder(t, key)
		transporttest.Eventually(t, "the node whose clock is wrong holds again", func() bool {
			c.Crash(first)
			c.Clocks[first] = wrong
			c.Start()
			for range 200 { // groups go back within seconds to the node that should hold them
				if c.holder(t, key) == first {
					return true
				}
				<-time.After(100 * time.Millisecond)
			}
			// It held while the one that should was still starting: that one's clock, then.
			c.Crash(first)
			c.Clocks[first] = 0
			c.Start()
			first = c.holder(t, key)
			return false
		})
		admitted, lost := 0, c.Lost()
		for range 10 {
			if c.TakeDecided(first, key).Allowed {
				admitted++
			}
		}
		c.Leave(first)
		second := c.holder(t, key)
		for range 10 {
			if c.TakeDecided(second, key).Allowed {
				admitted++
			}
		}
		if admitted > 10 || admitted+c.Lost()-lost < 5 {
			t.Errorf("by a clock that is off by %v: %d of 10 an hour admitted, %d answers lost", wrong, admitted, c.Lost()-lost)
		}
		c.Clocks[first] = 0
		c.Start()
	}
}
