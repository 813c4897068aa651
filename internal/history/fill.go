package history

import (
	"context"
	"time"

	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/history/store"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/window"
)

// begin begins a history: at the journal's first message if it is there, else with what snapshots have.
func (w *Writer) begin(ctx context.Context) error {
	first, _, _, err := w.cfg.Journal.Bounds(ctx)
	if err != nil {
		return err
	}
	if first > 1 {
		return w.fill(ctx, "history began, and what was counted before is known by snapshots")
	}
	w.tail = replica.NewTail(w.cfg.Journal, w.cfg.Journal.Partitions())
	return nil
}

// fill goes on after the newest snapshots, and fills in what the rows lack: of each key and slot, the hits of the snapshots less the
// hits of the rows. A window knows older slots within bounds only, which rows have as their doubt. Days are filled in as such: their
// bounds are closer than the bounds of their slots together.
func (w *Writer) fill(ctx context.Context, why string) error {
	f := &filling{w: w, all: [2]map[int64]window.Count{{}, {}}, ids: gather{slot: int64(w.lease.Slot / time.Second), ids: map[string]map[int64]*distinct.Set{}}}
	began := time.Now()
	if w.lease.Position != nil {
		f.from = w.lease.AsOf.Unix() - w.lease.AsOf.Unix()%store.DaySeconds
	}
	f.to = began.Unix() - began.Unix()%store.DaySeconds + store.DaySeconds
	w.cfg.Logger.Info("history: filling a gap from snapshots", "why", why)
	var err error
	if f.origin, err = w.cfg.Store.BeginFill(ctx, w.lease); err != nil {
		return err
	}
	snaps := make([]*record.Snapshot, w.cfg.Journal.Partitions())
	if err := w.cfg.Journal.NewestSnapshots(ctx, func(partition int, snap *record.Snapshot) error {
		if snap == nil {
			return nil
		}
		content, err := replication.ReadContent(snap.State)
		if err != nil {
			return err
		}
		snap.State, snap.Receipts, snaps[partition] = nil, nil, snap
		return f.partition(ctx, content)
	}); err != nil {
		return err
	}
	if err := f.total(ctx); err != nil {
		return err
	}
	after := replica.After(w.cfg.Journal, snaps)
	b := &store.Batch{Position: after.Position(), Gaps: f.gaps(w, why)}
	if b.Message, b.AsOf, err = replica.Reached(b.Position); err != nil {
		return err
	}
	if err := w.cfg.Store.EndFill(ctx, w.lease, f.origin, b, f.rolled()); err != nil {
		return err
	}
	w.tail, w.claimed = after, time.Now()
	w.report(w.lease, f.written, nil)
	w.cfg.Logger.Info("history: filled a gap from snapshots", "rows", f.written, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// ofSlots and ofDays are the places of slots and days in a filling.
const ofSlots, ofDays = 0, 1

// filling is what fill writes.
type filling struct {
	w        *Writer
	origin   int64
	from, to int64 // whole days; from of 0: this is the first filling
	evicted  bool
	past     int64 // Unix ms until which hits older than the retention were taken
	written  int   // rows

	rows [2][]store.Row
	ids  gather
	all  [2]map[int64]window.Count // of all keys together
}

// rolled is the first day that is not filled in as a whole: days that had rows before are summed up from their slots again.
func (f *filling) rolled() int64 {
	if f.from > 0 {
		return min(f.w.lease.Rolled, f.from/store.DaySeconds)
	}
	return f.to/store.DaySeconds - 1
}

// gaps are the times of which hits may be missing in spite of the filling.
func (f *filling) gaps(w *Writer, why string) []store.Gap {
	switch {
	case f.from > 0 && f.past > w.lease.AsOf.UnixMilli(): // snapshots have none of these
		return []store.Gap{w.gapOfAll(why + "; hits older than the retention were among it")}
	case f.from > 0: // hits may have been late, or of keys that were evicted since
		return []store.Gap{w.gap(why)}
	case f.evicted:
		return []store.Gap{w.gapOfAll(why + "; some keys had been evicted")}
	}
	return []store.Gap{{First: time.Unix(0, 0), Last: time.Now().Add(-w.cfg.Retention), Why: why}}
}

func (f *filling) partition(ctx context.Context, c replication.Content) error {
	f.evicted = f.evicted || len(c.Evicted) > 0
	f.past = max(f.past, c.Past)
	var names []string
	for i := range c.Keys {
		if c.Keys[i].Key != "" {
			names = append(names, c.Keys[i].Key)
		}
	}
	known, err := f.known(ctx, names...)
	if err != nil {
		return err
	}
	for i := range c.Keys {
		key := &c.Keys[i]
		if key.Key == "" || key.Key == engine.AllKeys {
			continue
		}
		f.window(&key.Window, known[key.Key], func(unit int, at int64, c window.Count) { f.put(key.Key, unit, at, c) })
		if len(f.rows[ofSlots])+len(f.rows[ofDays]) >= maxRows {
			if err := f.write(ctx); err != nil {
				return err
			}
		}
	}
	for _, d := range c.Distinct {
		f.ids.addIDs(d)
		if f.ids.text >= maxText {
			if err := f.write(ctx); err != nil {
				return err
			}
		}
	}
	f.window(&c.Total, nil, func(unit int, at int64, c window.Count) { f.all[unit][at] = f.all[unit][at].Plus(c) })
	return f.write(ctx)
}

// known is what the rows of the journal have of keys already, by key and slot.
func (f *filling) known(ctx context.Context, names ...string) (map[string]map[int64]uint64, error) {
	if f.from == 0 {
		return nil, nil
	}
	known := map[string]map[int64]uint64{}
	err := f.w.cfg.Store.Has(ctx, f.w.lease, names, f.from, f.to, func(r store.Row) {
		if known[r.Key] == nil {
			known[r.Key] = map[int64]uint64{}
		}
		known[r.Key][r.Slot] = sum(known[r.Key][r.Slot], r.N)
	})
	return known, err
}

// window calls put with what a window has in each slot and day that is not known.
func (f *filling) window(win *window.Window, known map[int64]uint64, put func(unit int, at int64, c window.Count)) {
	newest, ok := win.Newest()
	if !ok {
		return
	}
	slot := int64(f.w.lease.Slot / time.Second)
	oldest := max(f.from, newest-win.Retention(), 0)
	for day := oldest - oldest%store.DaySeconds; day <= newest && day < f.to; day += store.DaySeconds {
		whole := within(win, day, store.DaySeconds)
		if whole.Upper == 0 {
			continue
		}
		for at := day; at < day+store.DaySeconds; at += slot {
			if c := less(within(win, at, slot), known[at]); c.Upper > 0 {
				put(ofSlots, at, c)
			}
		}
		if f.from == 0 && day < f.to-store.DaySeconds {
			put(ofDays, day, whole)
		}
	}
}

// within is the count of [at, at+seconds).
func within(win *window.Window, at, seconds int64) window.Count {
	c := win.Count(at+seconds-1, seconds)
	if !c.HasUpper() {
		c.Upper = win.Total()
	}
	return c
}

// less is a count without n of its hits.
func less(c window.Count, n uint64) window.Count {
	return window.Count{Lower: c.Lower - min(c.Lower, n), Estimate: c.Estimate - min(c.Estimate, n), Upper: c.Upper - min(c.Upper, n)}
}

func (f *filling) put(key string, unit int, at int64, c window.Count) {
	f.rows[unit] = append(f.rows[unit], store.Row{Key: key, Slot: at, N: c.Lower, Doubt: c.Upper - c.Lower})
}

func (f *filling) write(ctx context.Context) error {
	rows := len(f.rows[ofSlots]) + len(f.rows[ofDays])
	if rows == 0 && len(f.ids.ids) == 0 {
		return nil
	}
	f.written += rows
	err := f.w.cfg.Store.AddFill(ctx, f.w.lease, f.origin, f.rows[ofSlots], f.rows[ofDays], store.IDs{Slot: f.ids.slot, Sets: f.ids.ids})
	clear(f.ids.ids)
	f.ids.text = 0
	f.w.claimed = time.Now()
	f.rows[ofSlots], f.rows[ofDays] = f.rows[ofSlots][:0], f.rows[ofDays][:0]
	return err
}

// total writes what all keys together have.
func (f *filling) total(ctx context.Context) error {
	known, err := f.known(ctx, engine.AllKeys)
	if err != nil {
		return err
	}
	for at, c := range f.all[ofSlots] {
		if c = less(c, known[engine.AllKeys][at]); c.Upper > 0 {
			f.put(engine.AllKeys, ofSlots, at, c)
		}
	}
	for at, c := range f.all[ofDays] {
		f.put(engine.AllKeys, ofDays, at, c)
	}
	return f.write(ctx)
}
