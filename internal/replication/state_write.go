package replication

import (
	"encoding/binary"

	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/window"
)

// StateWriter writes the state of a partition, its parts in the order of its methods, each
// once. Nothing is gathered before: a partition may have a million keys.
type StateWriter struct {
	b       []byte
	start   int
	scratch []byte
}

// NewStateWriter begins a state after b, of one of an engine's partitions, with its
// retention in seconds and the window of all hits of the partition.
func NewStateWriter(b []byte, partitions, partition int, retention int64, total *window.Window) *StateWriter {
	w := &StateWriter{b: append(b, stateMagic, stateVersion), start: len(b)}
	for _, n := range []uint64{uint64(partitions), uint64(partition), uint64(retention)} {
		w.b = binary.AppendUvarint(w.b, n)
	}
	w.window(total)
	return w
}

func (w *StateWriter) window(of *window.Window) {
	w.scratch, _ = of.AppendBinary(w.scratch[:0]) // never fails
	w.b = wire.AppendBlock(w.b, w.scratch)
}

// Evicted writes the places of the eviction sketch that have hits, in order.
func (w *StateWriter) Evicted(list []Evicted) {
	w.b = binary.AppendUvarint(w.b, uint64(len(list)))
	for _, f := range list {
		w.b = binary.AppendUvarint(w.b, uint64(f.Place))
		w.b = binary.AppendUvarint(w.b, f.Hits)
		w.b = binary.AppendUvarint(w.b, uint64(f.Newest))
	}
}

// Windows writes how many windows there are, for which Window is called then: first those of
// keys, then those ahead of the clock.
func (w *StateWriter) Windows(n int) { w.b = binary.AppendUvarint(w.b, uint64(n)) }

// Window writes one of a key.
func (w *StateWriter) Window(key string, of *window.Window) {
	w.b = wire.AppendText(w.b, key)
	w.window(of)
}

// Past writes until when hits were taken for history alone, Unix ms; 0: none were.
func (w *StateWriter) Past(until int64) { w.b = binary.AppendUvarint(w.b, uint64(until)) }

// Limits writes what keys have used of limits, all by a clock that the time of day is ahead
// of by so many ns. each calls add with all of them.
func (w *StateWriter) Limits(ahead int64, each func(add func(record, key string, state []byte))) {
	w.b = binary.AppendVarint(w.b, ahead)
	numbers := map[string]uint64{}
	var records, states []byte
	n := uint64(0)
	each(func(record, key string, state []byte) {
		number, known := numbers[record]
		if !known {
			number = uint64(len(numbers))
			numbers[record] = number
			records = wire.AppendText(records, record)
		}
		states = binary.AppendUvarint(states, number)
		states = wire.AppendText(states, key)
		states = wire.AppendBlock(states, state)
		n++
	})
	w.b = append(binary.AppendUvarint(w.b, uint64(len(numbers))), records...)
	w.b = append(binary.AppendUvarint(w.b, n), states...)
}

// Seal ends the state, and returns it after the bytes that it was begun with.
func (w *StateWriter) Seal() []byte { return wire.Seal(w.b, w.start) }
