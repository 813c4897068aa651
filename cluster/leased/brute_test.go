package leased_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/cluster/join/jointest"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

const brutePolicies = `limits:
  - {name: ring, keys: "r:*", limit: 16, per: 2s, where: leased}
  - {name: slots, keys: "s:*", limit: 200, per: 2s, where: leased}
  - {name: bucket, keys: "b:*", limit: 200, per: 2s, burst: 100, algorithm: gcra, where: leased}
  - {name: once, keys: "o:*", limit: 2000, per: 1h, where: leased}
`

// admission is one that was told, between two times.
type admission struct {
	key           string
	before, after int64 // Unix ns
}

// asker asks one node at a time for all that it can get, and then another: what was lent to one is
// asked for at the next.
type asker struct {
	mu       sync.Mutex
	admitted []admission
	denied   int
	away     int
}

func (a *asker) run(c *cluster, seed uint64, keys []string, over <-chan struct{}) {
	random := rand.New(rand.NewPCG(seed, 5))
	var d policy.Decision
	for {
		i, key := random.IntN(len(c.nodes)), keys[random.IntN(len(keys))]
		for range 1 + random.IntN(60) {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
			n := c.at(i)
			if n == nil {
				break
			}
			before := time.Now().UnixNano()
			if err := n.live.Take([]policy.Request{{Key: key, N: 1}}, &d); err != nil {
				c.t.Error(err)
				return
			}
			a.note(key, before, time.Now().UnixNano(), &d)
		}
	}
}

func (a *asker) note(key string, before, after int64, d *policy.Decision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case d.Allowed:
		a.admitted = append(a.admitted, admission{key, before, after})
	case d.Results[0].Away != "":
		a.away++
	default:
		a.denied++
	}
}

// mostWithin is the most admissions of a key that were surely within one interval.
func (a *asker) mostWithin(key string, interval int64) (most uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var of []admission
	for _, one := range a.admitted {
		if one.key == key {
			of = append(of, one)
		}
	}
	for _, last := range of {
		n := uint64(1)
		for _, other := range of {
			if other.before > last.after-interval && other.after <= last.before {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

var bruteRounds = flag.Int("brute.rounds", 1, "how often TestNeverOver goes through all that may happen to a node")

// An adversary moves between nodes, while those that lend or were lent to are killed, leave, are cut
// off and come back. By brute force over all admissions that were told: no interval has more than the
// limit's own worst case.
func TestNeverOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, brutePolicies, 20*time.Millisecond)
	var keys []string
	for _, kind := range []string{"r", "s", "b", "o"} {
		for k := range 2 {
			keys = append(keys, fmt.Sprint(kind, ":", k))
		}
	}
	for i := range c.nodes {
		c.decided(i, keys[0])
	}
	var a asker
	var asking sync.WaitGroup
	over := make(chan struct{})
	for k := range 8 {
		asking.Go(func() { a.run(c, uint64(k), keys, over) })
	}
	random := rand.New(rand.NewPCG(3, 3))
	var local, messages uint64
	for round := range 3 * *bruteRounds {
		fault := []string{"crash", "leave", "cut off"}[round%3]
		victim := random.IntN(len(c.nodes))
		<-time.After(time.Second + time.Duration(random.IntN(1000))*time.Millisecond)
		stats := c.at(victim).leased.Stats()
		local, messages = local+stats.Local, messages+stats.Asked
		switch fault {
		case "crash":
			c.crash(victim)
		case "leave":
			c.leave(victim)
		case "cut off": // it goes on and is asked, and does not know what the others do
			c.at(victim).journal.Joined().Close()
			<-time.After(testTTL)
			c.crash(victim)
		}
		other := (victim + 1) % len(c.nodes)
		jointest.Eventually(t, "another node decides", func() bool { return c.take(other, keys[0]).Results[0].Away == "" })
		<-time.After(time.Second)
		c.start()
		a.mu.Lock()
		t.Logf("%d: %s of n%d: %d admitted, %d denied, %d away so far", round, fault, victim+1, len(a.admitted), a.denied, a.away)
		a.mu.Unlock()
	}
	close(over)
	asking.Wait()
	t.Logf("the victims decided %d locally, and sent %d messages", local, messages)
	if local < messages/10 {
		t.Error("hardly anything was decided locally: this shows nothing")
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
				worst = max(worst, a.mostWithin(key, int64(plan.Interval())))
			}
		}
		t.Logf("%s: %d within %v, at most %d may be", p.Name, worst, plan.Interval(), most)
		if worst > most || worst < most/2 {
			t.Errorf("%s: %d within %v, at most %d may be, and at least half must", p.Name, worst, plan.Interval(), most)
		}
	}
}
