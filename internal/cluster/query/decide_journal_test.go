package query

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/policy"
)

// limited is a node with a policy of so many per hour.
type limited struct {
	*journaled
	live *admit.Live
}

const limitedTo = 10

func openLimited(t testing.TB, limit uint64, cfg durable.Config) []*limited {
	t.Helper()
	set, err := policy.Parse("p.yaml", fmt.Appendf(nil, "limits: [{name: l, keys: \"*\", limit: %d, per: 1h, where: shared}]", limit))
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*limited
	for i, n := range openThree(t, cfg) {
		live, err := admit.NewClusterLive(n.engine, set, admit.Cluster{Node: fmt.Sprint("n", i), Shared: n.Router})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, &limited{n, live})
	}
	return nodes
}

// hammer asks nodes for keys, all at once, and returns how many were admitted of each key,
// by Result.Away.
func hammer(t *testing.T, nodes []*limited, keys []string) map[string]map[string]uint64 {
	t.Helper()
	var mu sync.Mutex
	admitted := map[string]map[string]uint64{}
	for _, key := range keys {
		admitted[key] = map[string]uint64{}
	}
	var asking sync.WaitGroup
	for _, n := range nodes {
		for range 4 {
			asking.Go(func() {
				var d admit.Decision
				for range limitedTo {
					for _, key := range keys {
						if err := n.live.Take([]admit.Request{{Key: key, N: 1}}, &d); err != nil {
							t.Error(err)
						}
						if d.Allowed {
							mu.Lock()
							admitted[key][d.Results[0].Away]++
							mu.Unlock()
						}
					}
				}
			})
		}
	}
	asking.Wait()
	return admitted
}

// keysOf are some keys that a node holds.
func (n *limited) keysOf() (keys []string) {
	for i := 0; len(keys) < 4; i++ {
		if key := fmt.Sprint("k", i); n.Holds(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// With one holder of each key, all nodes together admit the burst and not one more. When
// it is gone, each of the others admits at most the burst.
func TestSharedLimitWithOneHolder(t *testing.T) {
	t.Parallel()
	nodes := openLimited(t, limitedTo, durable.Config{FlushEvery: 5 * time.Millisecond, Replicas: 1})
	gone, rest := nodes[0], nodes[1:]
	its := gone.keysOf()
	for key, n := range hammer(t, nodes, slices.Concat(its, nodes[1].keysOf(), nodes[2].keysOf())) {
		if n[""] != limitedTo || len(n) != 1 {
			t.Errorf("%s: admitted %v, want %d by its holder", key, n, limitedTo)
		}
	}
	gone.crash()
	for key, n := range hammer(t, rest, its) {
		if n["own"] != uint64(len(rest)*limitedTo) || len(n) != 1 {
			t.Errorf("%s: admitted %v without its holder, want %d by each of the others", key, n, limitedTo)
		}
	}
}

// With two holders, the nodes together admit at most the burst of each; and once the holders
// know of each other nobody admits more.
func TestSharedLimitWithTwoHolders(t *testing.T) {
	t.Parallel()
	nodes := openLimited(t, limitedTo, durable.Config{FlushEvery: 5 * time.Millisecond, Replicas: 2})
	keys := nodes[0].keysOf()
	for key, n := range hammer(t, nodes, keys) {
		if n[""] < limitedTo || n[""] > 2*limitedTo || len(n) != 1 {
			t.Errorf("%s: admitted %v, want %d to %d by its holders", key, n, limitedTo, 2*limitedTo)
		}
	}
	for _, n := range nodes {
		if err := n.journal.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		n.journal.CatchUp(t.Context())
	}
	for key, n := range hammer(t, nodes, keys) {
		if len(n) != 0 {
			t.Errorf("%s: admitted %v more", key, n)
		}
	}
	uses, err := nodes[2].LimitKeys(t.Context(), nodes[2].limit(t), 100)
	if err != nil || len(uses) != len(keys) || uses[0].Remaining != 0 {
		t.Errorf("%+v, %v", uses, err)
	}
}

func (n *limited) limit(t *testing.T) *weir.KeyedLimit {
	kl, known := n.live.Limit("l")
	if !known {
		t.Fatal("no limit l")
	}
	return kl
}

// The next holder knows what the one before has admitted.
func TestSharedLimitMoves(t *testing.T) {
	t.Parallel()
	nodes := openLimited(t, limitedTo, durable.Config{FlushEvery: 5 * time.Millisecond, Replicas: 1, MoveAfter: time.Second})
	gone, rest := nodes[0], nodes[1:]
	its := gone.keysOf()
	hammer(t, nodes, its)
	for _, n := range nodes {
		if err := n.journal.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	gone.crash()
	// All of them: a node that ends while it takes one may wait for the journal for ever.
	transporttest.Eventually(t, "the others have taken what it held", func() bool {
		return replication.Of(rest[0].engine).HeldPartitions().Len()+replication.Of(rest[1].engine).HeldPartitions().Len() == 32
	})
	for _, key := range its {
		for _, n := range rest {
			var d admit.Decision
			transporttest.Eventually(t, key+" has another holder", func() bool {
				if err := n.live.Peek([]admit.Request{{Key: key, N: 1}}, &d); err != nil {
					t.Fatal(err)
				}
				return d.Results[0].Away == ""
			})
			if d.Allowed {
				t.Errorf("%s: the new holder knows of nothing: %+v", key, d.Results)
			}
		}
	}
}
