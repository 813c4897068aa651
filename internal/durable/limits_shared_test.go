package durable

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine/side"
	"github.com/weir-counter/weir/limit"
)

// admitted is one admission: at its node, between two times.
type admitted struct {
	node          int
	before, after int64    // Unix ns
	known         [3]int64 // of each node, until when its admissions were known there, before
}

// news is when a node came to know what the others admitted until then.
type news struct {
	at    int64
	known [3]int64
}

// knows is until when each node's admissions are known at one.
func (r *running) knows() (known [3]int64) {
	for _, o := range r.j.Origins() {
		known[o.Node[1]-'1'] = o.AsOf.UnixNano()
	}
	return known
}

// hammer asks a limit of each node for one key, as fast as it goes, for a while. lag
// is the longest time that it took until all knew of an admission.
func (c *cluster) hammer(limits []*weir.KeyedLimit, key string, pause, long time.Duration) (all []admitted, lag int64) {
	heard := make([][]news, len(limits))
	ctx, stop := context.WithCancel(c.t.Context())
	var listening sync.WaitGroup
	for i, node := range c.nodes {
		listening.Go(func() {
			for ctx.Err() == nil {
				heard[i] = append(heard[i], news{time.Now().UnixNano(), node.knows()})
				time.Sleep(time.Millisecond)
			}
		})
	}
	all = c.ask(limits, key, pause, long)
	c.applied()
	stop()
	listening.Wait()
	for _, a := range all {
		for _, of := range heard {
			// A flush tells its time in whole ms, and the next may come a second later.
			at := slices.IndexFunc(of, func(n news) bool { return n.known[a.node] > a.after-int64(time.Millisecond) })
			if at < 0 {
				c.t.Fatal("not all nodes know all")
			}
			lag = max(lag, of[at].at-a.before)
		}
	}
	return all, lag
}

func (c *cluster) ask(limits []*weir.KeyedLimit, key string, pause, long time.Duration) (all []admitted) {
	var mu sync.Mutex
	var asking sync.WaitGroup
	end := time.Now().Add(long)
	for i, l := range limits {
		asking.Go(func() {
			for time.Now().Before(end) {
				a := admitted{node: i, known: c.nodes[i].knows(), before: time.Now().UnixNano()}
				if l.Allow(key) {
					a.after = time.Now().UnixNano()
					mu.Lock()
					all = append(all, a)
					mu.Unlock()
				}
				time.Sleep(pause)
			}
		})
	}
	asking.Wait()
	slices.SortFunc(all, func(a, b admitted) int { return int(a.before - b.before) })
	return all
}

func (c *cluster) limits(where limit.Where, name string, l weir.Limit) (list []*weir.KeyedLimit) {
	c.t.Helper()
	for i, node := range c.nodes {
		kl, err := side.Of(node.e).LimitIn(fmt.Sprintf("n%d", i+1), where, name, l)
		if err != nil {
			c.t.Fatal(err)
		}
		list = append(list, kl)
	}
	return list
}

// Three nodes share a limit of one key that all are asked for at once. No node
// admits more than the burst of what it knows; what they admit more together is
// what the others did within the time that word takes, and is reported.
func TestSharedLimit(t *testing.T) {
	c := newCluster(t, 3)
	c.start()
	for i, l := range []weir.Limit{{N: 5, Per: time.Second}, {N: 60, Per: time.Second}, {N: 40, Per: 2 * time.Second, Burst: 10}} {
		var made []*weir.KeyedLimit
		var all []admitted
		var burst uint64
		var lag, interval int64
		for try := range 10 { // what is too many is known where word is faster than the limit's interval
			made = c.limits(limit.WhereShared, fmt.Sprint("shared", i, "-", try), l)
			burst = made[0].Limit().Burst
			interval = int64(l.Per) * int64(burst) / int64(l.N)
			all, lag = c.hammer(made, "k", time.Millisecond, time.Duration(2*interval))
			if lag <= interval/2 {
				break
			}
			t.Logf("%+v: the word took %v: asked again", l, time.Duration(lag))
		}
		for at, a := range all {
			knew, everywhere := uint64(1), uint64(1)
			for _, b := range all[:at] {
				if b.before <= a.after-interval || b.after > a.before {
					continue
				}
				if everywhere++; b.node == a.node || b.after < a.known[b.node]-int64(time.Millisecond) {
					knew++
				}
			}
			if knew > burst {
				t.Fatalf("%+v: node %d admitted number %d of what it knew", l, a.node+1, knew)
			}
			if everywhere > 3*burst {
				t.Fatalf("%+v: %d in one interval on three nodes", l, everywhere)
			}
		}
		if lag > interval/2 {
			t.Fatalf("%+v: the word took %v", l, time.Duration(lag))
		}
		over := overshoot(all, interval-lag, burst)
		var reported []uint64
		for _, kl := range made {
			if reported = append(reported, side.Overshoot(kl)); side.Overshoot(kl) < over {
				t.Errorf("%+v: %d too many, %d reported", l, over, side.Overshoot(kl))
			}
		}
		if over == 0 {
			t.Errorf("%+v: three nodes at once never took too many: the test sees nothing", l)
		}
		t.Logf("%+v: %d admitted in two intervals, the word took up to %v, %d too many, reported %v", l, len(all), time.Duration(lag), over, reported)
	}
	for i, node := range c.nodes {
		if s := node.j.Stats(); s.Divergence+s.Holes != 0 {
			t.Errorf("node %d: %+v", i+1, s)
		}
	}
}

// overshoot is how many admissions were more than the burst in intervals one after
// the other; the largest of several beginnings.
func overshoot(all []admitted, interval int64, burst uint64) (most uint64) {
	const beginnings = 50
	for k := range int64(beginnings) {
		counts := map[int64]uint64{}
		for _, a := range all {
			counts[(a.before+k*interval/beginnings)/interval]++
		}
		over := uint64(0)
		for _, n := range counts {
			over += n - min(n, burst)
		}
		most = max(most, over)
	}
	return most
}

// applied waits until every node knows what all others did before.
func (c *cluster) applied() {
	c.t.Helper()
	now := time.Now().Add(time.Millisecond)
	transporttest.Eventually(c.t, "all nodes know of all others", func() bool {
		for _, node := range c.nodes {
			if known, _ := node.j.LateOrigins(); known.Before(now) {
				return false
			}
		}
		return true
	})
}

// A node's own limit counts nobody else's admissions, and is there again after a
// crash; so is a shared one of a short period.
func TestNodeAndSharedLimitsSurviveACrash(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start()
	own, both := weir.Limit{N: 4, Per: time.Hour}, weir.Limit{N: 6, Per: 50 * time.Second}
	for i, kl := range c.limits(limit.WhereNode, "own", own) {
		if !kl.AllowN("k", uint64(i+1)) {
			t.Errorf("node %d: denied", i+1)
		}
	}
	shared := c.limits(limit.WhereShared, "both", both)
	if !shared[1].AllowN("k", 5) {
		t.Error("denied")
	}
	c.applied()
	if v, err := shared[0].Peek("k", 0); err != nil || v.Remaining != 1 {
		t.Errorf("n1 of what n2 admitted: %+v, %v", v, err)
	}
	if err := c.nodes[1].j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.nodes[1].crash()
	c.nodes[1] = nil
	c.start()
	for i, kl := range c.limits(limit.WhereNode, "own", own) {
		if v, err := kl.Peek("k", 0); err != nil || v.Remaining != uint64(3-i) {
			t.Errorf("node %d: %+v, %v, want %d left", i+1, v, err, 3-i)
		}
	}
	for i, kl := range c.limits(limit.WhereShared, "both", both) {
		if v, err := kl.Peek("k", 0); err != nil || v.Remaining != 1 || side.Overshoot(kl) != 0 {
			t.Errorf("node %d: %+v, %v, %d too many: want 1 left", i+1, v, err, side.Overshoot(kl))
		}
	}
}
