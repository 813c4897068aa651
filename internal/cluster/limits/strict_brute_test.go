package limits

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

const brutePolicies = `limits:
  - {name: ring, keys: "r:*", limit: 5, per: 2s, where: strict}
  - {name: slots, keys: "s:*", limit: 40, per: 4s, where: strict}
  - {name: bucket, keys: "b:*", limit: 20, per: 4s, burst: 10, algorithm: gcra, where: strict}
  - {name: once, keys: "o:*", limit: 30, per: 1h, where: strict}
  - {name: all, keys: "a:*", limit: 100_000, per: 1h, where: strict}
`

// ask asks a node for all keys until it is stopped.
func (c *cluster) ask(t *testing.T, i int, keys []string, log *AnswerLog, over <-chan struct{}) {
	random := rand.New(rand.NewPCG(uint64(i), 5))
	var d admit.Decision
	for {
		select {
		case <-over:
			return
		case <-time.After(10 * time.Millisecond):
		}
		n := c.At(i)
		if n == nil {
			continue
		}
		if err := log.Take(n.Live, admit.Request{Key: keys[random.IntN(len(keys))], N: 1}, &d); err != nil {
			t.Error(err)
			return
		}
	}
}

var bruteRounds = flag.Int("brute.rounds", 1, "how often TestNeverOver goes through all that may happen to a holder")

// All nodes are asked for the same keys without a pause, while holders are killed,
// leave, are cut off and come back. By brute force over all admissions that were
// answered: no interval has more than the limit's own worst case, and none is forgotten. Nor do more hold permits at once than may.
func TestNeverOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, brutePolicies, 20*time.Millisecond)
	var keys []string
	for _, kind := range []string{"r", "s", "b", "o", "a"} {
		for k := range 3 {
			keys = append(keys, fmt.Sprint(kind, ":", k))
		}
	}
	var log AnswerLog
	var asking sync.WaitGroup
	over := make(chan struct{})
	for i := range ClusterSize {
		c.Decided(i, keys[0])
		for range 2 {
			asking.Go(func() { c.ask(t, i, keys, &log, over) })
		}
	}
	var holds transporttest.Holds
	jobs := []string{"j:0", "j:1"}
	for i := range uint64(5) {
		asking.Go(func() {
			holds.Work(t, &atNodes{c, t, rand.New(rand.NewPCG(i, 8))}, jobs, permitsTTL, i, over)
		})
	}
	random := rand.New(rand.NewPCG(3, 3))
	for round := range len(Faults) * *bruteRounds {
		fault := Faults[round%len(Faults)]
		victim := c.holder(t, keys[random.IntN(len(keys))])
		time.Sleep(time.Second + time.Duration(random.IntN(100))*time.Millisecond)
		c.Fail(victim, fault, testTTL)
		for _, key := range keys {
			c.holder(t, key) // another, or the same again
		}
		time.Sleep(time.Second)
		c.Start()
		t.Logf("%d: %s of n%d: %v", round, fault, victim+1, &log)
	}
	close(over)
	asking.Wait()
	for _, key := range keys {
		if key[0] == 'a' {
			c.allKnown(t, key, log.Admissions(key))
		}
	}
	for _, key := range jobs {
		most, all := holds.Most(key)
		if t.Logf("%s: %d at once, of %d; %v", key, most, all, &holds); most > permitsMost {
			t.Errorf("%s: %d held a permit at once, at most %d may", key, most, permitsMost)
		}
		transporttest.Eventually(t, "all permits of "+key+" are free again", func() bool {
			p, err := c.At(0).Live.TakePermit(1, permitOf(key))
			return err == nil && p.OK && p.Held == 1
		})
	}
	for _, p := range c.Policies.Policies() {
		worst, most := log.Worst(t, p, keys)
		if worst > most || worst == 0 {
			t.Errorf("%s: %d within an interval, at most %d may be, and some must", p.Name, worst, most)
		}
	}
}

// allKnown checks that all admissions of a key that were answered count at its holder.
func (c *cluster) allKnown(t *testing.T, key string, answered []Admission) {
	t.Helper()
	n := uint64(len(answered))
	var holder int
	var d admit.Decision
	transporttest.Eventually(t, "the holder of "+key+" answers", func() bool { // it may have changed since it was asked for
		holder = c.holder(t, key)
		if err := c.At(holder).Live.Peek([]admit.Request{{Key: key}}, &d); err != nil {
			t.Fatal(err)
		}
		return d.Results[0].Away == ""
	})
	used := d.Results[0].Limit.Burst - d.Results[0].Remaining
	t.Logf("%s: %d answered, %d known to n%d", key, n, used, holder+1)
	if used < n || n == 0 {
		t.Errorf("%s: %d admissions were answered, of which n%d knows %d", key, n, holder+1, used)
	}
}
