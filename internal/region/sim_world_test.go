package region

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// simRegion is a region of two nodes.
type simRegion struct {
	name    string
	journal *simJournal
	log     *simStore
	nodes   [2]*Region
	links   []*simLink
}

// simLink is what one region pulls from another.
type simLink struct {
	number   int
	from     int
	feed     *feed // nil: it is down
	parts    assembler
	underWay [][]byte
}

type simWorld struct {
	t       *testing.T
	rng     *rand.Rand
	harm    bool
	tally   *simTally
	regions []*simRegion
	keys    [simPartitions][]string
	clock   time.Time
	pieces  int // bytes of a base's piece
}

// nameKeys finds keys of each partition.
func (w *simWorld) nameKeys() {
	e, err := engine.New(simEngine())
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	for i := 0; len(w.keys[0]) < simKeys || len(w.keys[1]) < simKeys; i++ {
		key := fmt.Sprint("k", i)
		partition := e.Keyspace().PartitionOf(key)
		w.keys[partition] = append(w.keys[partition], key)
	}
}

// Shapes of links.
const (
	simRing = iota
	simStar
	simMesh
)

func (w *simWorld) build(n, shape int) {
	for i := range n {
		r := &simRegion{name: string(rune('a' + i)), journal: newSimJournal(w)}
		r.log = &simStore{w: w, region: i, first: 1}
		for j := range n {
			ring, star, mesh := j == (i+1)%n, i == 0 || j == 0, true
			if i != j && []bool{simRing: ring, simStar: star, simMesh: mesh}[shape] {
				r.links = append(r.links, &simLink{number: len(r.links), from: j})
			}
		}
		w.regions = append(w.regions, r)
	}
	for i := range n {
		w.restart(i, 0)
		w.restart(i, 1)
	}
}

// restart begins the life of a node.
func (w *simWorld) restart(region, node int) {
	r := w.regions[region]
	cfg := Config{Name: r.name, Memory: simPartitions * 64 << 10, LogBytes: 1}.WithDefaults()
	for _, l := range r.links {
		cfg.Links = append(cfg.Links, Link{Region: string(rune('a' + l.from))})
	}
	n := newRegion(cfg, r.journal, r.log, simEngine())
	n.cfg.LogBytes = 8 * 1500 // a base is due soon
	n.pieceBytes = w.pieces
	n.now = func() time.Time { return w.clock }
	if err := n.load(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	if was := r.nodes[node]; was != nil {
		_ = was.views.Close()
	}
	r.nodes[node] = n
	for _, l := range r.links {
		l.feed = nil
	}
	for _, other := range w.regions { // who pulled from it does so no more
		for _, l := range other.links {
			if l.from == region {
				l.feed, l.underWay = nil, nil
			}
		}
	}
}

func (w *simWorld) step() {
	w.clock = w.clock.Add(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
	i := w.rng.IntN(len(w.regions))
	r := w.regions[i]
	switch w.rng.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		for range 1 + w.rng.IntN(4) {
			r.journal.write()
		}
	case 6, 7, 8, 9:
		w.act(i)
	case 10, 11, 12, 13, 14:
		w.pull(i)
	case 15:
		if w.rng.IntN(3) == 0 {
			r.journal.snapshot()
		}
	case 16:
		w.tally.crashes.Add(1)
		w.restart(i, w.rng.IntN(2))
	case 17:
		if l := r.links[w.rng.IntN(len(r.links))]; l.feed != nil {
			w.tally.cuts.Add(1)
			l.feed, l.underWay, l.parts = nil, nil, assembler{}
		}
	case 18: // the same comes again by a link that was opened anew
		if l := r.links[w.rng.IntN(len(r.links))]; l.feed != nil && len(l.underWay) > 0 {
			w.take(i, l, l.underWay[0])
		}
	case 19:
		if w.rng.IntN(25) == 0 { // all disks of the region are lost
			w.tally.disks.Add(1)
			r.journal = newSimJournal(w)
			*r.log = simStore{w: w, region: i, first: 1}
			for node := range r.nodes {
				r.nodes[node] = nil
				w.restart(i, node)
			}
		}
	}
}

// act has a node of a region write.
func (w *simWorld) act(region int) {
	r := w.regions[region]
	node := w.rng.IntN(2)
	n := r.nodes[node]
	epoch := n.ledger.Region(r.name)
	r.log.acting = n
	err := n.follow(context.Background())
	if err == nil {
		err = n.write(context.Background())
	}
	if now := n.ledger.Region(r.name); now != nil && (epoch == nil || epoch.Epoch != now.Epoch) {
		w.tally.epochs.Add(1)
	}
	if errors.Is(err, errSimCrash) {
		w.tally.crashes.Add(1)
		w.restart(region, node)
	} else if err != nil && !errors.Is(err, errSimLost) && !errors.Is(err, errBehind) && !errors.Is(err, errBegun) && !errors.Is(err, errRound) {
		w.t.Errorf("region %s: %v", r.name, err)
	}
}
