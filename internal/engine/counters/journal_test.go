package counters

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// clock is a node's clock, in ns.
type clock int64

func (c *clock) Now() int64 { return int64(*c) }

const partitions = 128

func newNode(c *clock, journaled bool) *Table {
	return New(Config{
		Bound: 1 << 20, Partitions: partitions, Clock: c, Ahead: func() int64 { return 0 }, Journaled: journaled, Refuses: func() error { return nil },
		PartitionOf: func(key string) int {
			h := fnv.New32a()
			h.Write([]byte(key))
			return int(h.Sum32() % partitions)
		},
	})
}

// flush is one message of a journal.
type flush struct {
	by      int // node
	claims  bool
	changes []replication.Change
}

// cut makes the flush of a node, of bytes as a journal has them.
func cut(t *testing.T, table *Table, by int) flush {
	t.Helper()
	f := flush{by: by}
	for p := range partitions {
		f.changes, _ = table.Cut(p, f.changes, false)
	}
	return f
}

// again is a change that was written and read.
func again(t *testing.T, list []replication.Change) (read []replication.Change) {
	t.Helper()
	for _, one := range list {
		r := wire.NewReader(replication.AppendChange(nil, one))
		read = append(read, replication.ReadChange(r))
		if !r.Done() {
			t.Fatalf("%+v can't be read", one)
		}
	}
	return read
}

func (t *Table) all(now int64) map[string]Counter {
	all := map[string]Counter{}
	v := t.View()
	for part := range ScanParts {
		v.Scan(now, part, func(key string, c *Counter) { all[key] = *c })
	}
	return all
}

// A node of which only the state and the flushes after it are left has the same counters.
func TestRestart(t *testing.T) {
	var c clock = 1_000_000 * 1_000_000
	table := newNode(&c, true)
	v := table.View()
	var state, then []replication.Change
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 20_000 {
		c += clock(rng.Int64N(2_000_000))
		now, k := table.Now(), fmt.Appendf(nil, "k%d", rng.IntN(300))
		switch rng.IntN(8) {
		case 0:
			v.Remove(now, k)
		case 1:
			v.Expire(now, k, now+rng.Int64N(2000), Always)
		case 2:
			c, _ := v.Get(now, k)
			_ = v.SetLog(now, k, append(c.Log.After(float64(now-50)), float64(now)), now+1000)
		default:
			_, _ = v.Add(now, k, rng.Int64N(5)-1) // not to a log
		}
		if i%100 == 99 {
			for p := range partitions {
				var all []replication.Change
				then, all = table.Cut(p, then, i == 9_999)
				state = append(state, all...)
			}
			if i == 9_999 {
				then = nil
			}
		}
	}
	next := newNode(&c, true)
	next.Apply(again(t, state), false)
	next.Apply(again(t, then), false)
	want, got := table.all(table.Now()), next.all(table.Now())
	if len(want) == 0 || !maps.EqualFunc(want, got, same) {
		t.Errorf("%d counters, want %d: %v\n%v", len(got), len(want), got, want)
	}
}

func same(a, b Counter) bool {
	return a.Value == b.Value && a.Expires == b.Expires && fmt.Sprint(a.Log.After(-1)) == fmt.Sprint(b.Log.After(-1))
}

// Several nodes follow one journal at their own pace. One of them changes counters after the other, as each claims
// that. What was acknowledged is there, and at the end all nodes have the same, whatever a node wrote that had lost its
// claim without knowing. A map is the model.
func TestNodes(t *testing.T) {
	for seed := range uint64(300) {
		testNodes(t, seed)
	}
}

func testNodes(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	var c clock = 1_000_000
	const count = 3
	nodes, followed := [count]*Table{}, [count]int{}
	leads := [count]uint64{} // the token under which a node changes counters, as it believes
	for i := range nodes {
		nodes[i] = newNode(&c, true)
	}
	var journal []flush
	acknowledged := map[string]int64{} // at least so much
	type waiting struct {
		key   string
		value int64
		token uint64
		at    int // it is acknowledged once the node has followed so far
	}
	waits := [count][]waiting{}
	lastClaim := func(to int) (by int, token uint64) {
		for i := to - 1; i >= 0; i-- {
			if journal[i].claims {
				return journal[i].by, uint64(i + 1)
			}
		}
		return -1, 0
	}
	follow := func(i, to int) {
		for ; followed[i] < to; followed[i]++ {
			f := journal[followed[i]]
			nodes[i].Apply(again(t, f.changes), f.by == i)
			by, token := lastClaim(followed[i] + 1)
			if f.claims && by == i {
				nodes[i].Lead(token)
				leads[i] = token
			}
			for len(waits[i]) > 0 && waits[i][0].at <= followed[i]+1 {
				w := waits[i][0]
				waits[i] = waits[i][1:]
				if by == i && token == w.token {
					acknowledged[w.key] = max(acknowledged[w.key], w.value)
				}
			}
		}
	}
	for range 400 {
		i := rng.IntN(count)
		switch what := rng.IntN(10); {
		case what == 0: // it claims, with all that it has changed, which is cut first
			f := cut(t, nodes[i], i)
			f.claims = true
			leads[i] = 0
			journal = append(journal, f)
			follow(i, len(journal))
		case what < 3:
			journal = append(journal, cut(t, nodes[i], i))
		case what < 6:
			follow(i, followed[i]+rng.IntN(len(journal)-followed[i]+1))
		case leads[i] != 0:
			v, k := nodes[i].View(), fmt.Sprint("k", rng.IntN(5))
			value, err := v.Add(nodes[i].Now(), key(k), 1)
			if err != nil {
				t.Fatal(err)
			}
			journal = append(journal, cut(t, nodes[i], i))
			waits[i] = append(waits[i], waiting{k, value, leads[i], len(journal)})
		}
		if by, token := lastClaim(followed[i]); by != i || token != leads[i] {
			leads[i] = 0
		}
	}
	for i := range nodes {
		journal = append(journal, cut(t, nodes[i], i))
	}
	for i := range nodes {
		follow(i, len(journal))
	}
	want := nodes[0].all(nodes[0].Now())
	for i, n := range nodes {
		if got := n.all(n.Now()); !maps.EqualFunc(want, got, same) {
			t.Fatalf("seed %d: node %d has %v, node 0 has %v", seed, i, got, want)
		}
		if len(n.shards[0].before) > 0 {
			t.Fatalf("seed %d: node %d still waits for what it wrote", seed, i)
		}
	}
	for k, n := range acknowledged {
		if want[k].Value < n {
			t.Fatalf("seed %d: %s is %d, and %d was acknowledged", seed, k, want[k].Value, n)
		}
	}
}

// Many goroutines learn of a new claim at once, some late of an older one. No change is taken back by another's Lead.
func TestLeadTogether(t *testing.T) {
	const goroutines, adds = 8, 20
	for round := range 200 {
		var c clock = 1_000_000
		table := newNode(&c, true)
		table.Lead(4)
		v := table.View()
		_, _ = v.Add(1, key("lost"), 1)
		var all sync.WaitGroup
		ready := make(chan struct{})
		for i := range goroutines {
			all.Go(func() {
				<-ready
				v := table.View()
				if i%2 == 0 {
					table.Lead(3)
				}
				table.Lead(5)
				for range adds {
					_, _ = v.Add(1, key("a"), 1)
					_, _ = v.Add(1, fmt.Appendf(nil, "k%d", i), 1)
				}
				table.Lead(4)
			})
		}
		close(ready)
		all.Wait()
		if got := table.all(1); got["a"].Value != goroutines*adds || len(got) != goroutines+1 {
			t.Fatalf("round %d: %v", round, got)
		}
		if table.token.Load() != 5 {
			t.Fatal("an older token replaced the newer")
		}
	}
}

// A counter has a change that no cut has as a new claim begins. Once the journal has yet another claim, the change after it is taken back.
func TestVoidOfListed(t *testing.T) {
	var c clock = 1_000_000
	a, b := newNode(&c, true), newNode(&c, true)
	for _, n := range []*Table{a, b} {
		n.Apply([]replication.Change{&replication.Counter{ChangeOf: replication.ChangeOf{Key: "only"}, Token: 2, Value: 1}}, false)
	}
	a.Lead(5)
	v := a.View()
	_, _ = v.Add(1, key("a"), 1)
	_, _ = v.Add(1, key("only"), 1)
	_, _ = v.Add(1, key("gone"), 1)
	a.Lead(7)
	_, _ = v.Add(1, key("a"), 10)
	_, _ = v.Add(1, key("only"), 10)
	void := cut(t, a, 0)
	b.Lead(9)
	w := b.View()
	_, _ = w.Add(1, key("a"), 3)
	other := "a"
	for partition := a.cfg.PartitionOf; partition(other) != partition("only"); {
		other += "a"
	}
	_, _ = w.Add(1, key(other), 1)
	valid := cut(t, b, 1)
	for i, n := range []*Table{a, b} {
		n.Apply(again(t, valid.changes), i == 1)
		n.Apply(again(t, void.changes), i == 0)
		if got := n.all(1); len(got) != 3 || got["a"].Value != 3 || got["only"].Value != 1 {
			t.Errorf("node %d: %v", i, got)
		}
	}
}

// What a deposed node flushes late is void for a node that starts from a state too, whether there are counters in it or not.
func TestStateHasTokens(t *testing.T) {
	for _, from := range []string{"the owner before its change came back", "the owner", "a follower"} {
		for _, removed := range []bool{false, true} {
			var c clock = 1_000_000
			deposed, owner, next := newNode(&c, true), newNode(&c, true), newNode(&c, true)
			deposed.Lead(4)
			v := deposed.View()
			_, _ = v.Add(1, key("a"), 1)
			late := cut(t, deposed, 0)
			owner.Lead(5)
			w, want := owner.View(), 1
			if _, _ = w.Add(1, key("a"), 7); removed {
				w.Remove(1, key("a"))
				want = 0
			}
			f, who := flush{}, owner
			var state []replication.Change
			for p := range partitions {
				var all []replication.Change
				f.changes, all = owner.Cut(p, f.changes, true)
				state = append(state, all...)
			}
			if from == "a follower" {
				who = newNode(&c, true)
			}
			if who.Apply(again(t, f.changes), who == owner); from != "the owner before its change came back" {
				state = nil
				for p := range partitions {
					_, all := who.Cut(p, nil, true)
					state = append(state, all...)
				}
			}
			next.Apply(again(t, state), false)
			next.Apply(again(t, late.changes), false)
			if got := next.all(1); len(got) != want || !removed && got["a"].Value != 7 {
				t.Errorf("of %s, removed: %t: %v", from, removed, got)
			}
		}
	}
}
