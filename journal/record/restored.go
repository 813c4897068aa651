package record

import (
	"encoding/binary"
	"strconv"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/window"
)

// What a backup has is restored into a journal that is in use as batches of windows: a
// key's windows on both sides merge, so that a window's bounds stay what they are, and
// its slots are as fine as they were. The entries of these batches, numbers as unsigned
// varints:
//
//	kind 2, windows     length of the key, the key, length of the window, the window
//	                    (package window). A length of 0: all hits of the partition
//	kind 3, evicted     place, hits, second of the newest: hits of evicted keys
//	kind 4, clear       one byte, 1: all hits that are before it are gone
//
// Their N is 1. They are of an origin of their own, which follows from the backup
// (package restore): one that is restored again has the same batches, and they are dropped.

// AppendWindowEntry appends an entry of a batch of KindWindows.
func AppendWindowEntry(b []byte, key string, w *window.Window) []byte {
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	encoded, _ := w.MarshalBinary() // never fails
	b = binary.AppendUvarint(b, uint64(len(encoded)))
	return append(b, encoded...)
}

// AppendEvictedEntry appends an entry of a batch of KindEvicted.
func AppendEvictedEntry(b []byte, f replication.Evicted) []byte {
	b = binary.AppendUvarint(b, uint64(f.Place))
	b = binary.AppendUvarint(b, f.Hits)
	return binary.AppendUvarint(b, uint64(f.Newest))
}

// AddRestored appends a batch of one of these kinds, of n entries.
func (e *Encoder) AddRestored(partition int, kind uint64, entries []byte, n uint64) {
	e.body = append(e.body[:0], entries...)
	e.Totals[partition] += n
	e.closeBatch(partition, kind)
}

// CheckRestored is check of one of these kinds.
func (b *Batch) CheckRestored() (sound bool) {
	switch b.Kind {
	case KindWindows:
		_, sound = b.Windows()
	case KindEvicted:
		_, sound = b.Evicted()
	case KindClear:
		b.N, b.Removes, sound = 1, true, len(b.Entries) == 1 && b.Entries[0] == 1
	}
	return sound
}

// Windows are the entries of a batch of windows, which it counts in n.
func (b *Batch) Windows() (list []replication.KeyWindow, sound bool) {
	b.N = 0
	e := newReader(b.Entries)
	for e.Len() > 0 {
		var one replication.KeyWindow
		key := e.Bytes(e.Count())
		err := one.Window.UnmarshalBinary(e.Bytes(e.Count()))
		if e.Failed() || err != nil || len(key) > weir.MaxKeyBytes {
			return nil, false
		}
		one.Key = string(key)
		list = append(list, one)
		b.N++
	}
	return list, true
}

// Evicted are the entries of a batch of KindEvicted, which it counts in N.
func (b *Batch) Evicted() (list []replication.Evicted, sound bool) {
	b.N = 0
	e := newReader(b.Entries)
	for e.Len() > 0 {
		place, hits, newest := e.Uvarint(), e.Uvarint(), e.Uvarint()
		if e.Failed() || place > replication.EvictedOfAll || newest > window.MaxTime {
			return nil, false
		}
		list = append(list, replication.Evicted{Place: int(place), Hits: hits, Newest: int64(newest)})
		b.N++
	}
	return list, true
}

// BackupName is the node's name in flushes of a backup that is merged. No node can have it.
func BackupName(id uint64) string { return "(backup " + strconv.FormatUint(id, 16) + ")" }

// ReplacingBackup is that of each backup that replaces all hits, whatever its id: of one that
// was cut off nothing comes any more once another has begun, as with nodes of one name.
const ReplacingBackup = "(replacing backup)"

// IsBackupName tells whether a node's name is one of these.
func IsBackupName(node string) bool { return len(node) > 0 && node[0] == '(' }
