package durable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/membership"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// sizeLoad is what a cluster of many nodes is given.
type sizeLoad struct {
	nodes      int
	replicas   int // nodes that hold each partition; 0: all
	partitions int
	flushEvery time.Duration
	keys       int     // active ones, of all nodes together
	hits       int     // of each node, per second
	zipf       float64 // exponent of the keys, above 1; 0: each as likely as the others
	follow     int     // nodes that follow the journal; the others only write to it
}

// sizeNode is a node that counts what it does.
type sizeNode struct {
	name    string
	e       *engine.Engine
	r       *replica.Replica
	follows bool
	took    uint64 // hits

	hitting   work // counts its own hits
	cutting   work // cuts and encodes
	following work // follows, from the last message to the newest
}

// work is what some entries took.
type work struct {
	entries int
	cpu     time.Duration
}

func (w *work) add(entries int, cpu time.Duration) {
	w.entries, w.cpu = w.entries+entries, w.cpu+cpu
}

// sizeWorld is a cluster in this process: the nodes' own code, one journal in memory,
// and a clock that is set. Nothing fails (the simulation of package replica is for that); it is for what many
// nodes cost.
type sizeWorld struct {
	t      testing.TB
	load   sizeLoad
	clock  atomic.Int64 // Unix ns; engines read it in goroutines of their own
	random *rand.Rand
	keys   []string
	picked []string // of one step of one node
	zipf   *rand.Zipf

	nodes     []*sizeNode
	bystander *sizeNode // follows, takes no hits and holds nothing

	log     [][]byte // of the current flush interval
	first   uint64   // sequence of the first of these
	fresh   int      // entries in these
	written sizeJournal
}

// sizeJournal is what was written to the journal.
type sizeJournal struct{ messages, bytes, entries int }

func newSizeWorld(t testing.TB, load sizeLoad) *sizeWorld {
	t.Helper()
	w := &sizeWorld{t: t, load: load, random: rand.New(rand.NewPCG(1, uint64(load.nodes))), first: 1}
	w.clock.Store(time.UnixMilli(1_800_000_000_450).UnixNano())
	for i := range load.keys {
		w.keys = append(w.keys, fmt.Sprintf("user:%07d", i))
	}
	if load.zipf > 0 {
		w.random.Shuffle(len(w.keys), func(i, k int) { w.keys[i], w.keys[k] = w.keys[k], w.keys[i] })
		w.zipf = rand.NewZipf(w.random, load.zipf, 1, uint64(load.keys-1))
	}
	var names []string
	for i := range load.nodes {
		names = append(names, fmt.Sprint("n", i+1))
	}
	for i, name := range names {
		n := w.newNode(name, uint64(i+1), i < load.follow)
		for p := range load.partitions {
			if !n.follows || !slices.Contains(membership.Preferred(names, p, load.replicas), name) {
				n.e.Release(p) // what does not follow is no counter of anything
			}
		}
		n.r.Begin(record.Incarnation{Origin: uint64(i + 1), Epoch: 1})
		w.publish(n.r.Hello(w.now()))
		w.nodes = append(w.nodes, n)
	}
	w.bystander = w.newNode("bystander", uint64(load.nodes+1), true)
	for p := range load.partitions {
		w.bystander.e.Release(p)
	}
	w.bystander.r.Begin(record.Incarnation{Origin: uint64(load.nodes + 1), Epoch: 1})
	w.follow()
	for _, n := range w.nodes {
		n.r.Ready()
	}
	return w
}

func (w *sizeWorld) newNode(name string, origin uint64, follows bool) *sizeNode {
	e, err := engine.New(engine.Config{Partitions: w.load.partitions, Gather: true, Now: w.now})
	if err != nil {
		w.t.Fatal(err)
	}
	n := &sizeNode{name: name, e: e, r: replica.New(e, origin, name, true), follows: follows}
	n.r.KeepToResend(1) // its 32 MiB are no news
	return n
}

func (w *sizeWorld) close() {
	for _, n := range append(w.nodes, w.bystander) {
		if err := n.e.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// everyKey hits each key once, on one node.
func (w *sizeWorld) everyKey() {
	for i, key := range w.keys {
		w.hit(w.nodes[i%len(w.nodes)], key)
	}
	w.interval()
}

// sizeStep is how long hits have the same time. A flush interval is a number of them.
const sizeStep = 100 * time.Millisecond

// busy lets all nodes take their hits for a while, a whole number of flush intervals.
func (w *sizeWorld) busy(during time.Duration) {
	for ; during > 0; during -= w.load.flushEvery {
		for step := sizeStep; ; step += sizeStep {
			for _, n := range w.nodes {
				w.picked = w.picked[:0]
				for range w.load.hits * int(sizeStep/time.Millisecond) / 1000 {
					w.picked = append(w.picked, w.pick())
				}
				began := processorTime(w.t)
				for _, key := range w.picked {
					w.hit(n, key)
				}
				n.hitting.add(len(w.picked), processorTime(w.t)-began)
			}
			w.clock.Add(int64(sizeStep))
			if step == w.load.flushEvery {
				break
			}
		}
		w.interval()
	}
}

func (w *sizeWorld) now() time.Time { return time.Unix(0, w.clock.Load()) }

// idle lets all nodes be without hits.
func (w *sizeWorld) idle(during time.Duration) {
	for ; during > 0; during -= w.load.flushEvery {
		w.clock.Add(int64(w.load.flushEvery))
		w.interval()
	}
}

func (w *sizeWorld) pick() string {
	if w.zipf != nil {
		return w.keys[w.zipf.Uint64()]
	}
	return w.keys[w.random.IntN(len(w.keys))]
}

func (w *sizeWorld) hit(n *sizeNode, key string) {
	if err := n.e.Hit(key); err != nil {
		w.t.Fatal(err)
	}
	n.took++
}

// interval ends a flush interval: each node cuts a flush, and those that follow read all
// that were written.
func (w *sizeWorld) interval() {
	for _, n := range w.nodes {
		began := processorTime(w.t)
		cut := n.r.Cut(w.now(), replica.CutOptions{})
		took := processorTime(w.t) - began
		n.cutting.add(w.publish(cut.Parts), took)
	}
	w.follow()
}

// publish appends a flush to the journal, and returns how many entries it has.
func (w *sizeWorld) publish(parts [][]byte) (entries int) {
	for _, data := range parts {
		p, err := record.DecodePart(data)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, b := range p.Batches {
			entries += len(b.Deltas())
		}
		w.log = append(w.log, data)
		w.written.messages++
		w.written.bytes += len(data)
	}
	w.fresh += entries
	w.written.entries += entries
	return entries
}

// follow lets the nodes that do read what was written since.
func (w *sizeWorld) follow() {
	for _, n := range append(slices.Clone(w.nodes), w.bystander) {
		if !n.follows {
			continue
		}
		began := processorTime(w.t)
		for i, data := range w.log {
			if _, err := n.r.Follow(w.now(), w.first+uint64(i), data, nil); err != nil {
				w.t.Fatal(err)
			}
		}
		n.following.add(w.fresh, processorTime(w.t)-began)
	}
	w.first += uint64(len(w.log))
	w.log, w.fresh = nil, 0
}
