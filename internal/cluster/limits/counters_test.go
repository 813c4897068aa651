package limits

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
)

// serveCounters has a node add 1 to the counter that a request names.
func serveCounters(n *ClusterNode) {
	table := n.Engine.Counters()
	n.Decider.Counters().Serve(func(request []byte) ([]byte, bool) {
		v := table.View()
		sum, err := v.Add(table.Now(), request, 1)
		if err != nil {
			return []byte(err.Error()), false
		}
		return strconv.AppendInt(nil, sum, 10), v.Wrote
	})
}

func counterOf(e *engine.Engine, key string) int64 {
	v := e.Counters().View()
	c, _ := v.Get(e.Counters().Now(), []byte(key))
	return c.Value
}

// Clients of three nodes add to counters while nodes are killed and come back, the owner among them, and all stop at
// once in the end. What was acknowledged is there on every node, and no more than what was tried. No reply comes twice.
func TestCounters(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits: []", 20*time.Millisecond)
	for i := range ClusterSize {
		serveCounters(c.At(i))
	}
	const keys = 4
	var acknowledged, unknown [keys]atomic.Int64
	var replies [keys]sync.Map
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	for i := range ClusterSize {
		for k := range keys {
			writing.Go(func() {
				for ctx.Err() == nil {
					n := c.At(i)
					if n == nil {
						time.Sleep(10 * time.Millisecond)
						continue
					}
					reply, err := n.Decider.Counters().Run(fmt.Appendf(nil, "k%d", k))
					refused, _ := errors.AsType[*api.Error](err)
					switch {
					case err == nil:
						if _, repeated := replies[k].LoadOrStore(string(reply), true); repeated {
							t.Errorf("two clients got the answer that k%d is %s", k, reply)
						}
						acknowledged[k].Add(1)
					case refused == nil || refused.Code != api.CodeOwnerUnreachable:
						unknown[k].Add(1)
					default:
						time.Sleep(10 * time.Millisecond)
					}
				}
			})
		}
	}
	progress := func(after string) {
		t.Helper()
		before := acknowledged[0].Load()
		transporttest.Eventually(t, "clients are answered after "+after, func() bool { return acknowledged[0].Load() > before+5 })
	}
	progress("the start")
	key := "a"
	for c.At(0).Decider.Group(key) != countersGroup {
		key += "a"
	}
	for round := range 3 {
		owner := (c.holder(t, key) + round%2) % ClusterSize
		c.Crash(owner)
		progress("a kill")
		c.Start()
		serveCounters(c.At(owner))
		progress("the start of a node that was killed")
	}
	stop()
	writing.Wait()
	check := func(when string) {
		t.Helper()
		for k := range keys {
			key, least, most := fmt.Sprint("k", k), acknowledged[k].Load(), acknowledged[k].Load()+unknown[k].Load()
			for i := range ClusterSize {
				e := c.At(i).Engine
				transporttest.Eventually(t, fmt.Sprintf("%s: node %d has %s as node 1 does", when, i+1, key), func() bool {
					return counterOf(e, key) == counterOf(c.At(0).Engine, key)
				})
				if is := counterOf(e, key); is < least || is > most {
					t.Errorf("%s: node %d: %s is %d, and was acknowledged %d times, %d unknown", when, i+1, key, is, least, most-least)
				}
			}
		}
	}
	check("at the end")
	for i := range ClusterSize {
		c.Crash(i)
	}
	c.Start()
	check("after a restart of all")
}

// A command on counters whose owner answers late is answered: it may not be run again, and no policy says what becomes of it.
func TestCountersOfASlowOwner(t *testing.T) {
	t.Parallel()
	const deadline = 50 * time.Millisecond // of decisions
	c := newClusterWithin(t, "limits: []", 20*time.Millisecond, deadline)
	for i := range ClusterSize {
		c.At(i).Decider.Counters().Serve(func(request []byte) ([]byte, bool) {
			time.Sleep(4 * deadline)
			return request, false
		})
	}
	for i := range ClusterSize {
		transporttest.Eventually(t, fmt.Sprintf("node %d answers", i+1), func() bool {
			reply, err := c.At(i).Decider.Counters().Run([]byte("k"))
			return err == nil && string(reply) == "k"
		})
	}
}

// While too many changes wait for the journal, every node answers at once that a command was not run.
func TestCountersCrowded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "limits: []", 20*time.Millisecond)
	for i := range ClusterSize {
		serveCounters(c.At(i))
	}
	key := "a"
	for c.At(0).Decider.Group(key) != countersGroup {
		key += "a"
	}
	transporttest.Eventually(t, "a command is run", func() bool {
		_, err := c.At(0).Decider.Counters().Run([]byte("k"))
		return err == nil
	})
	waiting := &c.At(c.holder(t, key)).Decider.owners.commits
	add := func(n int) {
		waiting.mu.Lock()
		waiting.count += n
		waiting.mu.Unlock()
	}
	add(maxCommits)
	for i := range ClusterSize {
		transporttest.Eventually(t, fmt.Sprintf("node %d says that the owner is overloaded", i+1), func() bool {
			_, err := c.At(i).Decider.Counters().Run([]byte("k"))
			refused, _ := errors.AsType[*api.Error](err)
			return refused != nil && refused.Code == api.CodeOverloaded
		})
	}
	add(-maxCommits)
	for i := range ClusterSize {
		transporttest.Eventually(t, fmt.Sprintf("node %d answers again", i+1), func() bool {
			_, err := c.At(i).Decider.Counters().Run([]byte("k"))
			return err == nil
		})
	}
}
