package limits_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/limits"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

const brutePolicies = `limits:
  - {name: ring, keys: "r:*", limit: 16, per: 2s, where: leased}
  - {name: slots, keys: "s:*", limit: 200, per: 2s, where: leased}
  - {name: bucket, keys: "b:*", limit: 200, per: 2s, burst: 100, algorithm: gcra, where: leased}
  - {name: once, keys: "o:*", limit: 2000, per: 1h, where: leased}
  - {name: waits, keys: "w:*", limit: 16, per: 1s, where: leased, wait: 300ms}
  - {name: turns, keys: "t:*", limit: 10, per: 1s, where: strict, wait: 300ms}
`

// brought is a limit that requests bring along, as those of RESP do.
var brought = policy.Policy{Name: "brought", Keys: "i:*", Limit: engine.Limit{N: 40, Per: 2 * time.Second, Burst: 20, Algorithm: limit.GCRA}}

func requestOf(key string) admit.Request {
	r := admit.Request{Key: key, N: 1}
	if key[0] == brought.Keys[0] {
		r.Limit, r.Inline = brought.Name, &brought.Limit
	}
	return r
}

// ask asks one node at a time for all that it can get, and then another: what was granted to one is
// asked for at the next.
func ask(t *testing.T, c *limits.Cluster, seed uint64, keys []string, log *limits.AnswerLog, over <-chan struct{}) {
	random := rand.New(rand.NewPCG(seed, 5))
	var d admit.Decision
	for {
		i, key := random.IntN(limits.ClusterSize), keys[random.IntN(len(keys))]
		for range 1 + random.IntN(60) {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
			n := c.At(i)
			if n == nil {
				break
			}
			if err := log.Take(n.Live, requestOf(key), &d); err != nil {
				t.Error(err)
				return
			}
		}
	}
}

var bruteRounds = flag.Int("leased.rounds", 1, "how often TestNeverOver goes through all that may happen to a node")

// An adversary moves between nodes, while those that grant or were granted something are killed, leave, are cut
// off and come back. By brute force over all admissions that were answered: no interval has more than the
// limit's own worst case.
func TestNeverOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, brutePolicies, 20*time.Millisecond)
	var keys []string
	for _, kind := range []string{"r", "s", "b", "o", "w", "t", "i"} {
		for k := range 2 {
			keys = append(keys, fmt.Sprint(kind, ":", k))
		}
	}
	for i := range limits.ClusterSize {
		c.Decided(i, keys[0])
	}
	var log limits.AnswerLog
	var asking sync.WaitGroup
	over := make(chan struct{})
	for k := range 8 {
		asking.Go(func() { ask(t, c, uint64(k), keys, &log, over) })
	}
	random := rand.New(rand.NewPCG(3, 3))
	var local, messages uint64
	for round := range len(limits.Faults) * *bruteRounds {
		fault := limits.Faults[round%len(limits.Faults)]
		victim := random.IntN(limits.ClusterSize)
		<-time.After(time.Second + time.Duration(random.IntN(1000))*time.Millisecond)
		stats := c.At(victim).Decider.Stats()
		local, messages = local+stats.Local, messages+stats.Asked
		c.Fail(victim, fault, testTTL)
		other := (victim + 1) % limits.ClusterSize
		transporttest.Eventually(t, "another node decides", func() bool { return c.Take(other, keys[0]).Results[0].Away == "" })
		<-time.After(time.Second)
		c.Start()
		t.Logf("%d: %s of n%d: %v", round, fault, victim+1, &log)
	}
	close(over)
	asking.Wait()
	t.Logf("the victims decided %d locally, and sent %d messages", local, messages)
	if local == 0 {
		t.Error("nothing was decided locally: this shows nothing")
	}
	for _, p := range append(c.Policies.Policies(), brought) {
		worst, most := log.Worst(t, p, keys)
		if worst > most || worst == 0 { // how much is asked for at all is up to the machine
			t.Errorf("%s: %d within an interval, at most %d may be, and some must", p.Name, worst, most)
		}
	}
}
