package strict

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/cluster/join/jointest"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

const brutePolicies = `limits:
  - {name: ring, keys: "r:*", limit: 5, per: 2s, where: strict}
  - {name: slots, keys: "s:*", limit: 40, per: 4s, where: strict}
  - {name: bucket, keys: "b:*", limit: 20, per: 4s, burst: 10, algorithm: gcra, where: strict}
  - {name: once, keys: "o:*", limit: 30, per: 1h, where: strict}
  - {name: all, keys: "a:*", limit: 100_000, per: 1h, where: strict}
`

// admission is one that was told, between two times.
type admission struct {
	key           string
	before, after int64 // Unix ns
}

// asker asks all nodes for all keys until it is stopped.
type asker struct {
	mu       sync.Mutex
	admitted []admission
	denied   int
	away     int
}

func (a *asker) run(c *cluster, i int, keys []string, over <-chan struct{}) {
	random := rand.New(rand.NewPCG(uint64(i), 5))
	var d policy.Decision
	for {
		select {
		case <-over:
			return
		case <-time.After(10 * time.Millisecond):
		}
		n := c.at(i)
		if n == nil {
			continue
		}
		key := keys[random.IntN(len(keys))]
		before := time.Now().UnixNano()
		if err := n.live.Take([]policy.Request{{Key: key, N: 1}}, &d); err != nil {
			c.t.Error(err)
			return
		}
		after := time.Now().UnixNano()
		a.mu.Lock()
		switch {
		case d.Allowed:
			a.admitted = append(a.admitted, admission{key, before, after})
		case d.Results[0].Away != "":
			a.away++
		default:
			a.denied++
		}
		a.mu.Unlock()
	}
}

var bruteRounds = flag.Int("brute.rounds", 1, "how often TestNeverOver goes through all that may happen to a holder")

// All nodes are asked for the same keys without a pause, while holders are killed,
// leave, are cut off and come back. By brute force over all admissions that were
// told: no interval has more than the limit's own worst case, and none is forgotten.
func TestNeverOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, brutePolicies, 20*time.Millisecond)
	var keys []string
	for _, kind := range []string{"r", "s", "b", "o", "a"} {
		for k := range 3 {
			keys = append(keys, fmt.Sprint(kind, ":", k))
		}
	}
	var a asker
	var asking sync.WaitGroup
	over := make(chan struct{})
	for i := range c.nodes {
		c.decided(i, keys[0])
		for range 2 {
			asking.Go(func() { a.run(c, i, keys, over) })
		}
	}
	random := rand.New(rand.NewPCG(3, 3))
	for round := range 3 * *bruteRounds {
		fault := []string{"crash", "leave", "cut off"}[round%3]
		victim := c.holder(keys[random.IntN(len(keys))])
		time.Sleep(time.Second + time.Duration(random.IntN(100))*time.Millisecond)
		switch fault {
		case "crash":
			c.crash(victim)
		case "leave":
			c.leave(victim)
		case "cut off": // it goes on and is asked, and does not know what the others do
			c.at(victim).journal.Joined().Close()
			time.Sleep(testTTL)
			c.crash(victim)
		}
		for _, key := range keys {
			c.holder(key) // another
		}
		time.Sleep(time.Second)
		c.start()
		a.mu.Lock()
		t.Logf("%d: %s of n%d: %d admitted, %d denied, %d away so far", round, fault, victim+1, len(a.admitted), a.denied, a.away)
		a.mu.Unlock()
	}
	close(over)
	asking.Wait()
	for _, key := range keys {
		if key[0] == 'a' {
			c.allKnown(key, a.told())
		}
	}
	for _, p := range c.policies.Policies() {
		plan, err := limit.New(p.Limit)
		if err != nil {
			t.Fatal(err)
		}
		most, worst := p.Limit.Burst, uint64(0)
		if p.Limit.Algorithm == limit.GCRA {
			most = 2*p.Limit.Burst - 1
		}
		for _, key := range keys {
			if key[0] == p.Keys[0] {
				worst = max(worst, mostWithin(a.told(), key, int64(plan.Interval())))
			}
		}
		t.Logf("%s: %d within %v, at most %d may be", p.Name, worst, plan.Interval(), most)
		if worst > most || worst == 0 {
			t.Errorf("%s: %d within %v, at most %d may be, and some must", p.Name, worst, plan.Interval(), most)
		}
	}
}

// allKnown checks that all admissions of a key that were told count at its holder.
func (c *cluster) allKnown(key string, told []admission) {
	c.t.Helper()
	n := uint64(0)
	for _, a := range told {
		if a.key == key {
			n++
		}
	}
	var holder int
	var d policy.Decision
	jointest.Eventually(c.t, "the holder of "+key+" answers", func() bool { // it may have changed since it was asked for
		holder = c.holder(key)
		if err := c.at(holder).live.Peek([]policy.Request{{Key: key}}, &d); err != nil {
			c.t.Fatal(err)
		}
		return d.Results[0].Away == ""
	})
	used := d.Results[0].Limit.Burst - d.Results[0].Remaining
	c.t.Logf("%s: %d told, %d known to n%d", key, n, used, holder+1)
	if used < n || n == 0 {
		c.t.Errorf("%s: %d admissions were told, of which n%d knows %d", key, n, holder+1, used)
	}
}

func (a *asker) told() []admission {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.admitted)
}

// mostWithin is the most admissions of a key that were surely within one interval,
// each looked at again.
func mostWithin(all []admission, key string, interval int64) (most uint64) {
	for _, last := range all {
		if last.key != key {
			continue
		}
		n := uint64(1)
		for _, other := range all {
			if other.key == key && other.before > last.after-interval && other.after <= last.before {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
