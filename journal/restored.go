package journal

import (
	"encoding/binary"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/window"
)

// What a backup has is restored into a journal that is in use as batches of windows: a
// key's windows on both sides merge, so that a window's bounds stay what they are, and
// its slots are as fine as they were. The entries of these batches, numbers as unsigned
// varints:
//
//	kind 2, windows     length of the key, the key, length of the window, the window
//	                    (package window). A length of 0: all hits of the partition
//	kind 3, forgotten   place, hits, second of the newest: hits of evicted keys
//	kind 4, clear       one byte, 1: all hits that are before it are gone
//
// Their N is 1. They are of an origin of their own, which follows from the backup
// (import.go): one that is restored again has the same batches, and they are dropped.

func appendWindowEntry(b []byte, key string, w *window.Window) []byte {
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	encoded, _ := w.MarshalBinary() // never fails
	b = binary.AppendUvarint(b, uint64(len(encoded)))
	return append(b, encoded...)
}

func appendForgottenEntry(b []byte, f weir.Forgotten) []byte {
	b = binary.AppendUvarint(b, uint64(f.Place))
	b = binary.AppendUvarint(b, f.Hits)
	return binary.AppendUvarint(b, uint64(f.Newest))
}

// addRestored appends a batch of one of these kinds, of n entries.
func (e *encoder) addRestored(partition int, kind uint64, entries []byte, n uint64) {
	e.body = append(e.body[:0], entries...)
	e.totals[partition] += n
	e.closeBatch(partition, kind)
}

// checkRestored is check of one of these kinds.
func (b *batch) checkRestored() (sound bool) {
	switch b.kind {
	case kindWindows:
		_, sound = b.windows()
	case kindForgotten:
		_, sound = b.forgotten()
	case kindClear:
		b.n, b.removes, sound = 1, true, len(b.entries) == 1 && b.entries[0] == 1
	}
	return sound
}

// windows are the entries of a batch of windows, which it counts in n.
func (b *batch) windows() (list []weir.KeyWindow, sound bool) {
	b.n = 0
	e := newReader(b.entries)
	for e.Len() > 0 {
		var one weir.KeyWindow
		key := e.Bytes(e.Count())
		err := one.Window.UnmarshalBinary(e.Bytes(e.Count()))
		if e.Failed() || err != nil || len(key) > weir.MaxKeyBytes {
			return nil, false
		}
		one.Key = string(key)
		list = append(list, one)
		b.n++
	}
	return list, true
}

func (b *batch) forgotten() (list []weir.Forgotten, sound bool) {
	b.n = 0
	e := newReader(b.entries)
	for e.Len() > 0 {
		place, hits, newest := e.Uvarint(), e.Uvarint(), e.Uvarint()
		if e.Failed() || place > weir.ForgottenOfAll || newest > window.MaxTime {
			return nil, false
		}
		list = append(list, weir.Forgotten{Place: int(place), Hits: hits, Newest: int64(newest)})
		b.n++
	}
	return list, true
}

// restored counts a batch of one of these kinds.
func (h *holding) restored(b batch) error {
	if o := h.open[b.partition]; o != nil {
		o.see(b)
	}
	if c := h.coming[b.partition]; c != nil {
		if c.room(h.maxThen) {
			c.then.add(b)
		}
		return nil
	}
	if !h.engine.Replication().Holds(b.partition) {
		return nil
	}
	switch b.kind {
	case kindWindows:
		list, _ := b.windows() // it was checked
		return h.engine.Replication().MergeWindows(b.partition, list)
	case kindForgotten:
		list, _ := b.forgotten()
		h.engine.Replication().MergeForgotten(b.partition, list)
	case kindClear:
		var own []weir.Delta
		if h.ownAll != nil {
			own = h.ownAll(b.partition, h.upTo[b.partition])
		}
		h.engine.Replication().Clear(b.partition, own)
	}
	return nil
}

// ownAll is ownSince of all keys, in order.
func (r *replica) ownAll(partition int, seq uint64) (list []weir.Delta) {
	if !r.eachOwn(partition, seq, func(d weir.Delta) { list = append(list, d) }) {
		r.holding.unsure[partition].Store(true)
	}
	return list
}
