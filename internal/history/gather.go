package history

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/keyspace"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/journal/record"
)

// maxRows and maxText bound what is gathered before it is written: some 16 MiB, and the bytes of the keys. The more there is, the
// fewer times a busy key is written while there is much to catch up on.
const (
	maxRows = 150_000
	maxText = 8 << 20
)

// gather adds up the hits of batches by key and slot.
type gather struct {
	slot    int64 // seconds
	seed    maphash.Seed
	last    []place             // hash table of the keys: where their last rows are; a power of two, at least twice the rows
	rows    []store.Row         // N = 0: the key was removed
	before  []uint32            // by row: 1 + the key's previous row; 0: it has none
	all     []store.Row         // of all keys together
	list    []replication.Delta // of the batch that is added: kept for its memory
	removed map[string]bool
	ids     map[string]map[int64]*distinct.Set // by key and slot
	text    int                                // bytes of the keys that rows and removed have, and of ids
	gaps    []store.Gap
}

// place is where a key's last row is.
type place struct {
	hash uint32 // the low bits of the key's: most other keys differ in them
	row  uint32 // 1 + the row; 0: none
}

func newGather(slot time.Duration) *gather {
	return &gather{slot: int64(slot / time.Second), seed: maphash.MakeSeed(), last: make([]place, 64), removed: map[string]bool{}, ids: map[string]map[int64]*distinct.Set{}}
}

// again begins the next batch in the memory of the last one, which was written.
func (g *gather) again() {
	clear(g.last)
	clear(g.removed)
	clear(g.ids)
	clear(g.rows) // the keys
	g.rows, g.before, g.all, g.text, g.gaps = g.rows[:0], g.before[:0], g.all[:0], 0, nil
}

// add takes a batch. Batches of a backup that is restored have no hits by the second: retention is how far they may reach back.
func (g *gather) add(b record.Batch, retention time.Duration) {
	switch b.Kind {
	case record.KindHits, record.KindPast:
		g.list = b.AppendHits(g.list[:0])
		g.addHits(g.list)
		clear(g.list) // the keys
	case record.KindDistinct:
		for _, d := range b.Distinct() {
			g.addIDs(d)
		}
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

// addIDs takes ids of a key.
func (g *gather) addIDs(d replication.KeyDistinct) {
	if g.ids[d.Key] == nil {
		g.ids[d.Key] = map[int64]*distinct.Set{}
		g.text += len(d.Key)
	}
	d.Set.Spans(g.slot, func(start int64, ids *distinct.Set) {
		was := g.ids[d.Key][start]
		if was == nil {
			g.ids[d.Key][start] = ids
			g.text += ids.Size()
			return
		}
		before := was.Size()
		was.Merge(ids)
		g.text += was.Size() - before
	})
}

// lookUpBlock is how many keys addHits looks up together.
const lookUpBlock = 64

// addHits takes hits; N = 0 says that a key is removed. Most of the time would go into cache misses. So it prefetches the places of
// many keys, then their rows, then the keys of these, and only then adds.
func (g *gather) addHits(hits []replication.Delta) {
	var hashes [lookUpBlock]uint64
	for block := range slices.Chunk(hits, lookUpBlock) {
		for i := range block {
			hashes[i] = maphash.String(g.seed, block[i].Key)
			keyspace.PrefetchRead(unsafe.Pointer(g.home(hashes[i])))
		}
		for i := range block {
			if row := g.home(hashes[i]).row; row > 0 {
				keyspace.PrefetchWrite(unsafe.Pointer(&g.rows[row-1]))
			}
		}
		for i := range block {
			if row := g.home(hashes[i]).row; row > 0 {
				keyspace.PrefetchRead(unsafe.Pointer(unsafe.StringData(g.rows[row-1].Key)))
			}
		}
		for i := range block {
			g.hit(hashes[i], block[i].Key, block[i].At, block[i].N)
		}
	}
}

func (g *gather) hit(hash uint64, key string, at int64, n uint64) {
	last := g.find(hash, key)
	if n == 0 {
		for row := last.row; row > 0; row = g.before[row-1] {
			g.rows[row-1].N = 0
		}
		delete(g.ids, key)
		if !g.removed[key] {
			g.removed[strings.Clone(key)] = true
			g.text += len(key)
		}
		return
	}
	slot := at - at%g.slot
	if !keyspace.Separate(key) {
		g.addAll(slot, n)
	}
	for row := last.row; row > 0; row = g.before[row-1] { // nearly always the first
		if r := &g.rows[row-1]; r.Slot == slot {
			r.N = sum(r.N, n)
			return
		}
	}
	var name string
	if last.row > 0 {
		name = g.rows[last.row-1].Key
	} else {
		name = strings.Clone(key)
		g.text += len(key)
	}
	g.rows = append(g.rows, store.Row{Key: name, Slot: slot, N: n})
	g.before = append(g.before, last.row)
	*last = place{uint32(hash), uint32(len(g.rows))}
	if len(g.rows) > len(g.last)/2 {
		g.grow()
	}
}

// home is the place in last for keys of a hash, unless another key took it first.
func (g *gather) home(hash uint64) *place { return &g.last[hash&uint64(len(g.last)-1)] }

// find is where last has a key, or would have it.
func (g *gather) find(hash uint64, key string) *place {
	for at := hash; ; at++ {
		last := g.home(at)
		if last.row == 0 || last.hash == uint32(hash) && g.rows[last.row-1].Key == key {
			return last
		}
	}
}

func (g *gather) grow() {
	was := g.last
	g.last = make([]place, 2*len(was))
	for _, last := range was {
		if last.row == 0 {
			continue
		}
		at := uint64(last.hash)
		for g.home(at).row > 0 {
			at++
		}
		*g.home(at) = last
	}
}

// addAll counts hits of all keys together, which nearly always are in one slot, or two.
func (g *gather) addAll(slot int64, n uint64) {
	for i := len(g.all) - 1; i >= 0; i-- {
		if g.all[i].Slot == slot {
			g.all[i].N = sum(g.all[i].N, n)
			return
		}
	}
	g.all = append(g.all, store.Row{Key: engine.AllKeys, Slot: slot, N: n})
}

func (g *gather) full() bool {
	return len(g.rows)+len(g.all)+len(g.removed) >= maxRows || g.text >= maxText
}

// batch returns what was gathered, in the gather's own memory. Gather nothing more until it is written, also after a retry.
func (g *gather) batch() *store.Batch {
	b := &store.Batch{Gaps: g.gaps}
	for key := range g.removed {
		b.Remove = append(b.Remove, key)
	}
	if len(g.removed) > 0 {
		g.rows = slices.DeleteFunc(g.rows, func(r store.Row) bool { return r.N == 0 })
	}
	g.rows = append(g.rows, g.all...)
	b.Rows, b.IDs = g.rows, store.IDs{Slot: g.slot, Sets: g.ids}
	return b
}

// lookAfter sums up the days that are over, and deletes what is older than it is kept.
func (w *Writer) lookAfter(ctx context.Context) error {
	// Late hits still come after this, and are added to both tables: it costs less before.
	today := w.lease.AsOf.Add(-lateFor).Unix() / store.DaySeconds
	if err := w.cfg.Store.Roll(ctx, w.lease, today); err != nil {
		return err
	}
	if today <= w.expired || len(w.cfg.Keep) == 0 {
		return nil
	}
	if err := w.cfg.Store.Expire(ctx, w.lease, w.cfg.Keep, w.lease.AsOf); err != nil {
		return err
	}
	w.expired = today
	return nil
}

// lateFor is how long after its end a day is summed up.
const lateFor = time.Hour

func (w *Writer) dropOldest(ctx context.Context, why error) error {
	if !errors.Is(why, store.ErrFull) || w.lease == nil {
		return why
	}
	day, ok, err := w.cfg.Store.DropOldest(ctx, w.lease)
	if err != nil {
		return errors.Join(why, err)
	}
	if !ok {
		return why
	}
	w.set(func(is *WriterStatus) { is.Full = true })
	w.cfg.Logger.Warn("history has reached --history-disk: deleting its oldest day early", "day", time.Unix(day*store.DaySeconds, 0).UTC().Format(time.DateOnly))
	return nil
}
