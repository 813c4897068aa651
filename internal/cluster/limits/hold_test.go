package limits

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
)

// What is held of a limit through one node is as good as used at all, also after a crash of its owner, and of strict and of leased limits.
func TestHoldsOfACluster(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"strict", "leased"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "limits: [{name: h, keys: \"h:*\", limit: 40, per: 1h, where: "+where+"}]", 5*time.Millisecond)
			const key = "h:a"
			for i := range ClusterSize {
				c.Decided(i, key)
			}
			holder := c.holder(t, key)
			other, third := (holder+1)%3, (holder+2)%3
			held, seq := uint64(0), uint64(0)
			hold := func(i int, id string, want uint64) {
				t.Helper()
				transporttest.Eventually(t, "a hold is answered", func() bool {
					seq++
					made, err := c.At(i).Live.Hold(admit.Request{Key: key}, id, "", seq, func(string, engine.Limit) admit.Hold { return admit.Hold{Want: want, Life: time.Hour} })
					if err != nil || len(made) != 1 {
						return false
					}
					held += made[0].Used
					return true
				})
			}
			hold(other, "a", 12)
			hold(third, "b", 4)
			if held != 16 {
				t.Errorf("%d held", held)
			}
			admitted := uint64(0)
			takeAll := func(nodes ...int) {
				for range 15 {
					for _, i := range nodes {
						var d admit.Decision
						if err := c.At(i).Live.Take([]admit.Request{{Key: key, N: 1}}, &d); err != nil {
							t.Error(err)
						} else if d.Allowed {
							admitted++
						}
					}
				}
			}
			takeAll(holder, other, third)
			if admitted > 24 || admitted < 20 && c.Lost() == 0 {
				t.Errorf("%d admitted while 16 of 40 are held", admitted)
			}
			c.Crash(holder)
			c.holder(t, key)
			c.Decided(other, key)
			takeAll(other, third)
			if admitted > 24 {
				t.Errorf("%d admitted while 16 of 40 are held, after a crash", admitted)
			}
			before := held
			hold(other, "c", 40)
			if held != before+24-admitted && held > before {
				t.Errorf("%d more are held, %d were admitted", held-before, admitted)
			}
		})
	}
}

// What an owner held for somebody and answered is held also by the next owner, if it is killed within a flush of the answer.
func TestHoldsOfAnOwnerThatIsKilled(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"strict", "leased"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "limits: [{name: h, keys: \"h:*\", limit: 60, per: 1h, where: "+where+"}]", 50*time.Millisecond)
			const key = "h:a"
			for i := range ClusterSize {
				c.Decided(i, key)
			}
			holder := c.holder(t, key)
			others := []int{(holder + 1) % 3, (holder + 2) % 3}
			var held atomic.Uint64
			var holding sync.WaitGroup
			over := make(chan struct{})
			for k := range 4 {
				holding.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-over:
							return
						case <-time.After(5 * time.Millisecond):
						}
						made, err := c.At(others[k%2]).Live.Hold(admit.Request{Key: key}, strconv.Itoa(k)+"-"+strconv.Itoa(n), "", 1, func(string, engine.Limit) admit.Hold {
							return admit.Hold{Want: 1, Life: time.Hour}
						})
						if err == nil && len(made) == 1 {
							held.Add(made[0].Used)
						}
					}
				})
			}
			transporttest.Eventually(t, "the owner holds", func() bool { return held.Load() > 3 })
			c.Crash(holder)
			c.holder(t, key)
			for _, i := range others {
				c.Decided(i, key)
			}
			close(over)
			holding.Wait()
			admitted := uint64(0)
			for range 60 {
				for _, i := range others {
					var d admit.Decision
					if err := c.At(i).Live.Take([]admit.Request{{Key: key, N: 1}}, &d); err != nil {
						t.Error(err)
					} else if d.Allowed {
						admitted++
					}
				}
			}
			if n := held.Load(); n+admitted > 60 {
				t.Errorf("%d held and %d admitted of 60", n, admitted)
			}
		})
	}
}
