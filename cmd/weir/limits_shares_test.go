package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// Three processes hold a third of the keys each. A limit of a policy, and one that requests bring along, admit their burst
// when all nodes are asked at once, and each node says who used most.
func TestLimitsOfProcesses(t *testing.T) {
	t.Parallel()
	const burst, keys, callers = 10, 6, 3
	c := newProcesses(t, "--replicas", "1", "--policy", writeFile(t, "p.yaml", fmt.Sprintf("limits: [{name: l, keys: \"k*\", limit: %d, per: 1h}]", burst)))
	c.start(0, 1, 2)
	clients := make([]*client.Client, clusterSize)
	for i := range clients {
		var err error
		if clients[i], err = client.New(c.nodes[i].Load().addr, client.Options{Retries: -1}); err != nil {
			t.Fatal(err)
		}
	}
	transporttest.Eventually(t, "each node holds its share, and all know it", func() bool {
		for _, cl := range clients {
			state, err := cl.Cluster(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held := 0
			for _, o := range state.Nodes {
				held += o.Held
			}
			if held != state.Partitions || state.Unheld > 0 {
				return false
			}
		}
		return true
	})

	var mu sync.Mutex
	admitted, undecided := map[string]int{}, map[string]int{} // of a busy machine's cluster some are: they may have taken
	var asking sync.WaitGroup
	for _, cl := range clients {
		for range callers {
			asking.Go(func() {
				for i := range burst * keys {
					key := fmt.Sprint("k", i%keys)
					for _, check := range []client.Check{{Key: key}, {Key: key, Limit: "own", Inline: &client.Limit{N: burst, Per: time.Hour}}} {
						d, err := cl.Allow(t.Context(), check)
						var unknown *client.NoDecisionError
						if err != nil && !errors.As(err, &unknown) {
							t.Error(err)
							return
						}
						mu.Lock()
						switch {
						case err != nil:
							undecided[check.Limit+" "+key]++
						case d.Allowed:
							admitted[check.Limit+" "+key]++
						}
						mu.Unlock()
					}
				}
			})
		}
	}
	asking.Wait()
	for key, n := range admitted {
		if n > burst || n+undecided[key] < burst {
			t.Errorf("%s: admitted %d and %d undecided, want %d", key, n, undecided[key], burst)
		}
	}
	for i, cl := range clients {
		uses, err := cl.LimitKeys(t.Context(), "l", 0)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, u := range uses.Keys {
			names = append(names, fmt.Sprint(u.Key, " ", u.Used))
		}
		slices.Sort(names)
		if want := "[k0 10 k1 10 k2 10 k3 10 k4 10 k5 10]"; fmt.Sprint(names) != want {
			t.Errorf("%s: %v, want %s", c.name(i), names, want)
		}
	}
	c.stop(0, 1, 2)
}
