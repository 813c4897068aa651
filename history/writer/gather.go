package writer

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/history/store"
	"github.com/weir-counter/weir/internal/keyspace"
	"github.com/weir-counter/weir/journal/record"
)

// maxRows is how many rows are gathered before they are written: some 15 MiB, with maxText bytes of keys at most. The more there are, the
// fewer times a key that is hit all the time is written while there is much to catch up on.
const (
	maxRows = 150_000
	maxText = 8 << 20
)

// gather adds up the hits of batches by key and slot.
type gather struct {
	slot    int64 // seconds
	seed    maphash.Seed
	last    []uint32    // 1 + the last row of a key, at the hash of the key or after it; 0: none. A power of two, twice the rows at least
	rows    []store.Row // those of keys that were removed have N = 0
	before  []uint32    // by row: 1 + the key's row before it; 0: there is none
	all     []store.Row // of all keys together
	removed map[string]bool
	text    int // bytes of the keys that rows and removed have
	gaps    []store.Gap
}

func newGather(slot time.Duration) *gather {
	return &gather{slot: int64(slot / time.Second), seed: maphash.MakeSeed(), last: make([]uint32, 64), removed: map[string]bool{}}
}

// again begins the next batch in the memory of the last one, which was written.
func (g *gather) again() {
	clear(g.last)
	clear(g.removed)
	clear(g.rows) // the keys
	g.rows, g.before, g.all, g.text, g.gaps = g.rows[:0], g.before[:0], g.all[:0], 0, nil
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
	last := g.find(key)
	if n == 0 {
		for row := *last; row > 0; row = g.before[row-1] {
			g.rows[row-1].N = 0
		}
		if !g.removed[string(key)] {
			g.removed[string(key)] = true
			g.text += len(key)
		}
		return
	}
	slot := at - at%g.slot
	if !keyspace.Separate(string(key)) {
		g.addAll(slot, n)
	}
	for row := *last; row > 0; row = g.before[row-1] { // nearly always the first
		if r := &g.rows[row-1]; r.Slot == slot {
			r.N = sum(r.N, n)
			return
		}
	}
	var name string
	if *last > 0 {
		name = g.rows[*last-1].Key
	} else {
		name = string(key)
		g.text += len(key)
	}
	g.rows = append(g.rows, store.Row{Key: name, Slot: slot, N: n})
	g.before = append(g.before, *last)
	*last = uint32(len(g.rows))
	if len(g.rows) > len(g.last)/2 {
		g.grow()
	}
}

// find is where last has a key, or would have it.
func (g *gather) find(key []byte) *uint32 {
	for at := maphash.Bytes(g.seed, key); ; at++ {
		last := &g.last[at&uint64(len(g.last)-1)]
		if *last == 0 || g.rows[*last-1].Key == string(key) {
			return last
		}
	}
}

// grow doubles last.
func (g *gather) grow() {
	g.last = make([]uint32, 2*len(g.last))
	var key []byte
	for i := range g.rows {
		key = append(key[:0], g.rows[i].Key...)
		*g.find(key) = uint32(i + 1)
	}
}

// addAll counts hits of all keys together, which are of one slot, or two, nearly always.
func (g *gather) addAll(slot int64, n uint64) {
	for i := len(g.all) - 1; i >= 0; i-- {
		if g.all[i].Slot == slot {
			g.all[i].N = sum(g.all[i].N, n)
			return
		}
	}
	g.all = append(g.all, store.Row{Key: weir.AllKeys, Slot: slot, N: n})
}

func sum(a, b uint64) uint64 {
	if a > ^b {
		return ^uint64(0)
	}
	return a + b
}

func (g *gather) full() bool {
	return len(g.rows)+len(g.all)+len(g.removed) >= maxRows || g.text >= maxText
}

// batch is what was gathered, in the gather's own memory: nothing is gathered after it, until it is written (again).
func (g *gather) batch() *store.Batch {
	b := &store.Batch{Gaps: g.gaps}
	for key := range g.removed {
		b.Remove = append(b.Remove, key)
	}
	if len(g.removed) > 0 {
		g.rows = slices.DeleteFunc(g.rows, func(r store.Row) bool { return r.N == 0 })
	}
	g.rows = append(g.rows, g.all...)
	b.Rows = g.rows
	return b
}
