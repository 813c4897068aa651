package keyspace

import (
	"unsafe"

	"github.com/weir-counter/weir/internal/keytable"
	"github.com/weir-counter/weir/internal/live"
	"github.com/weir-counter/weir/window"
)

// entry is one key and what it was hit: a cache line, where the key is not long.
type entry = keytable.Entry[counted]

// counted is what a key was hit: its live cell and its window.
type counted struct {
	cell   live.Cell
	window window.Window // guarded by the partition's lock
}

// keyBytes is the memory of an entry, beside the window's.
func keyBytes(en *entry) int64 {
	return keytable.Bytes[counted](len(en.Key())) - int64(unsafe.Sizeof(window.Window{}))
}

// newest is the latest second of the window and the live cell, whose word is given.
func (c *counted) newest(word uint64) (second int64, seen bool) {
	second, seen = c.window.Newest()
	if word < live.Special && live.Hits(word) > 0 {
		second, seen = max(second, live.Second(word)), true
	}
	return second, seen
}
