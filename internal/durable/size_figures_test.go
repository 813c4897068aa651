package durable

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// sizeFigures is what was measured of one cluster. Times are of one processor, bytes of
// messages without what NATS adds.
type sizeFigures struct {
	load       sizeLoad
	busy, idle sizeJournal // per second

	cutShare    float64 // of one core: to cut and encode, of each node
	followShare float64 // of one core: to follow, of each node
	cutEach     float64 // ns per own entry
	hitEach     float64 // ns per hit: to count it on its node
	cutHit      float64 // ns per hit: to cut and encode it, on its node
	followHit   float64 // ns per hit: to follow it, on all nodes together
	followEach  float64 // ns per entry of the journal
	passEach    float64 // ns per entry of the journal, by who holds nothing
	idleShare   float64 // of one core: both, of a node at rest

	held  int   // keys of a node
	bytes int64 // of them
}

// sizeRounds is how many seconds are measured, each for itself: medians of them are reported.
// An origin restates its totals once in ten.
const sizeRounds = 10

// measureSize gives a cluster its load, then rest.
func measureSize(t testing.TB, load sizeLoad) sizeFigures {
	w := newSizeWorld(t, load)
	defer w.close()
	w.everyKey()
	w.busy(time.Second)
	f := sizeFigures{load: load}
	var cutShare, followShare, cutEach, followEach, passEach, idleShare, hitEach, cutHit, followHit []float64
	w.written = sizeJournal{}
	for range sizeRounds {
		w.forgetWork()
		w.busy(time.Second)
		for _, n := range w.following() {
			cutShare, cutEach = append(cutShare, n.cutting.cpu.Seconds()), append(cutEach, n.cutting.each())
			followShare, followEach = append(followShare, n.following.cpu.Seconds()), append(followEach, n.following.each())
			hitEach = append(hitEach, n.hitting.each())
			cutHit = append(cutHit, float64(n.cutting.cpu)/float64(load.hits))
			followHit = append(followHit, float64(n.following.cpu)/float64(load.hits)) // of a node's hits, which as many nodes follow as take as many
		}
		passEach = append(passEach, w.bystander.following.each())
	}
	f.busy, w.written = w.written.over(sizeRounds), sizeJournal{}
	for range sizeRounds {
		w.forgetWork()
		w.idle(time.Second)
		for _, n := range w.following() {
			idleShare = append(idleShare, (n.cutting.cpu + n.following.cpu).Seconds())
		}
	}
	f.idle = w.written.over(sizeRounds)
	f.cutShare, f.followShare, f.idleShare = median(cutShare), median(followShare), median(idleShare)
	f.cutEach, f.followEach, f.passEach = median(cutEach), median(followEach), median(passEach)
	f.hitEach, f.cutHit, f.followHit = median(hitEach), median(cutHit), median(followHit)
	for _, n := range w.following() {
		stats := n.e.Stats()
		f.held, f.bytes = f.held+stats.Keys, f.bytes+stats.Bytes
	}
	f.held, f.bytes = f.held/len(w.following()), f.bytes/int64(len(w.following()))
	return f
}

func (w *sizeWorld) following() (list []*sizeNode) {
	for _, n := range w.nodes {
		if n.follows {
			list = append(list, n)
		}
	}
	return list
}

func (w *sizeWorld) forgetWork() {
	for _, n := range append(slices.Clone(w.nodes), w.bystander) {
		n.hitting, n.cutting, n.following = work{}, work{}, work{}
	}
}

// each is nanoseconds per entry.
func (w work) each() float64 { return float64(w.cpu) / float64(max(1, w.entries)) }

func (j sizeJournal) over(seconds int) sizeJournal {
	return sizeJournal{j.messages / seconds, j.bytes / seconds, j.entries / seconds}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// sent is what the nodes that keep the journal send, together: the leader to the others
// of them, and any of them to each node that asks for a message and keeps none.
func (f sizeFigures) sent() int {
	keep := min(replica.Replicas, f.load.nodes)
	return f.busy.bytes * (keep - 1 + f.load.nodes - keep)
}

// progressBytes is what a node keeps of the origins of that many nodes.
func progressBytes(t testing.TB, nodes, partitions int, now time.Time) int64 {
	few, many := heapBytes(), int64(0)
	one := heardOf(t, 1, partitions, now)
	few = heapBytes() - few
	runtime.KeepAlive(one)
	many = heapBytes()
	all := heardOf(t, nodes, partitions, now)
	many = heapBytes() - many
	runtime.KeepAlive(all)
	return many - few
}

// heardOf is a replica that has followed the first flush of that many nodes.
func heardOf(t testing.TB, nodes, partitions int, now time.Time) *replica.Replica {
	t.Helper()
	e, err := engine.New(engine.Config{Partitions: partitions, Gather: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil { // its janitor is not needed
		t.Fatal(err)
	}
	r := replica.New(e, 1, "n1", true)
	r.Begin(record.Incarnation{Origin: 1, Epoch: 1})
	for i := range nodes {
		encoder := record.NewEncoder(record.Incarnation{Origin: uint64(i + 1), Epoch: 1}, partitions)
		encoder.Node = fmt.Sprint("n", i+1)
		encoder.Begin(now)
		if _, err := r.Follow(now, uint64(i+1), encoder.End(nil)[0], nil); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// registryBytes is what the bucket has of that many nodes.
func registryBytes(t testing.TB, nodes, partitions int) int {
	held := replication.NewPartitionSet(partitions)
	held.Add(partitions - 1)
	data, err := json.Marshal(membership.PlacementEntry{Node: "n1", Origin: fmt.Sprintf("%016x", 1), Held: held})
	if err != nil {
		t.Fatal(err)
	}
	return nodes * len(data)
}

// medianCost is what a call of f takes of a processor, the median of some rounds.
func medianCost(t testing.TB, calls int, f func()) time.Duration {
	var rounds []float64
	for range sizeRounds {
		began := processorTime(t)
		for range calls {
			f()
		}
		rounds = append(rounds, float64(processorTime(t)-began)/float64(calls))
	}
	return time.Duration(median(rounds))
}

// holders says how many nodes hold a partition.
func (l sizeLoad) holders() string {
	if l.replicas == 0 || l.replicas >= l.nodes {
		return "all"
	}
	return fmt.Sprint(cmp.Or(l.replicas, l.nodes))
}
