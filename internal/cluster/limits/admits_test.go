package limits_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/limits"
	"github.com/weir-counter/weir/internal/engine"
)

// Three nodes that get three times the requests that a limit admits, each key's spread over all nodes, admit as many as one node that
// gets the same requests.
func TestNodesAdmitWhatOneDoes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits:\n  - {name: a, keys: \"a:*\", limit: 100, per: 4s}\n", 20*time.Millisecond)
	const keys = 40
	for k := range keys {
		for i := range limits.ClusterSize {
			c.Decided(i, fmt.Sprint("a:", k))
		}
	}
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	single, err := admit.NewLive(e, c.Policies)
	if err != nil {
		t.Fatal(err)
	}
	var many, one atomic.Uint64
	var asking sync.WaitGroup
	end := time.Now().Add(10 * time.Second)
	for k := range uint64(keys) {
		asking.Go(func() {
			random := rand.New(rand.NewPCG(k, 9))
			request := []admit.Request{{Key: fmt.Sprint("a:", k), N: 1}}
			var d admit.Decision
			for time.Now().Before(end) {
				<-time.After(time.Duration(8+random.IntN(8)) * time.Millisecond)
				for _, to := range []struct {
					live     *admit.Live
					admitted *atomic.Uint64
				}{{c.At(random.IntN(limits.ClusterSize)).Live, &many}, {single, &one}} {
					if err := to.live.Take(request, &d); err != nil {
						t.Error(err)
						return
					}
					if d.Allowed {
						to.admitted.Add(1)
					}
				}
			}
		})
	}
	asking.Wait()
	share := 100 * float64(many.Load()) / float64(one.Load())
	t.Logf("three nodes admit %d, one admits %d: %.1f %%", many.Load(), one.Load(), share)
	if share == 0 || *ownerExact && share < 97 {
		t.Error("want at least 97 %")
	}
}
