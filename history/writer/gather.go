package writer

import (
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/history/store"
	"github.com/weir-counter/weir/internal/keyspace"
	"github.com/weir-counter/weir/journal/record"
)

// maxRows is how many rows are gathered before they are written: some 20 MiB.
const maxRows = 50_000

// gather adds up the hits of batches by key and slot.
type gather struct {
	slot    int64 // seconds
	keys    map[string]*hits
	all     hits // of all keys together
	rows    int
	removed map[string]bool
	gaps    []store.Gap
}

// hits are those of one key. Nearly always they are of one slot, or two.
type hits []store.Row

func newGather(slot time.Duration) *gather {
	return &gather{slot: int64(slot / time.Second), keys: map[string]*hits{}, removed: map[string]bool{}}
}

// add takes a batch. Those of a backup that is restored have no hits by the second: retention is
// how far they may reach back.
func (g *gather) add(b record.Batch, retention time.Duration) {
	switch b.Kind {
	case record.KindHits, record.KindPast:
		b.EachHit(g.hit)
	case record.KindWindows, record.KindEvicted, record.KindClear:
		at := time.UnixMilli(b.CutAt)
		gap := store.Gap{First: at.Add(-retention), Last: at, Why: "a backup was restored: its hits are not known by the hour"}
		if last := len(g.gaps) - 1; last >= 0 && g.gaps[last].Why == gap.Why {
			g.gaps[last].Last = at
		} else {
			g.gaps = append(g.gaps, gap)
		}
	}
}

func (g *gather) hit(key []byte, at int64, n uint64) {
	of := g.keys[string(key)]
	if n == 0 {
		if of != nil {
			g.rows -= len(*of)
			delete(g.keys, string(key))
		}
		g.removed[string(key)] = true
		return
	}
	if of == nil {
		of = &hits{}
		g.keys[string(key)] = of
	}
	slot := at - at%g.slot
	g.rows += of.add(slot, n)
	if !keyspace.Separate(string(key)) {
		g.rows += g.all.add(slot, n)
	}
}

// add tells how many rows there are more.
func (h *hits) add(slot int64, n uint64) int {
	for i := len(*h) - 1; i >= 0; i-- {
		if (*h)[i].Slot == slot {
			(*h)[i].N = sum((*h)[i].N, n)
			return 0
		}
	}
	*h = append(*h, store.Row{Slot: slot, N: n})
	return 1
}

func sum(a, b uint64) uint64 {
	if a > ^b {
		return ^uint64(0)
	}
	return a + b
}

func (g *gather) full() bool { return g.rows+len(g.removed) >= maxRows }

// batch is what was gathered.
func (g *gather) batch() *store.Batch {
	b := &store.Batch{Rows: make([]store.Row, 0, g.rows), Gaps: g.gaps}
	for key := range g.removed {
		b.Remove = append(b.Remove, key)
	}
	put := func(key string, of hits) {
		for _, r := range of {
			r.Key = key
			b.Rows = append(b.Rows, r)
		}
	}
	for key, of := range g.keys {
		put(key, *of)
	}
	put(weir.AllKeys, g.all)
	return b
}
