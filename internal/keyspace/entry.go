package keyspace

import (
	"unsafe"

	"github.com/weir-counter/weir/internal/live"
	"github.com/weir-counter/weir/window"
)

// entry is one key: its live cell and its window. It is 64 bytes, a cache line
// and a size of the allocator.
type entry struct {
	cell   live.Cell
	key    string
	window window.Window // guarded by the partition's lock
}

// keyBytes is the memory of an entry and its key, beside the window's.
func keyBytes(key string) int64 {
	return int64(unsafe.Sizeof(entry{})-unsafe.Sizeof(window.Window{})) + int64((len(key)+7)&^7)
}

// newest is the latest second of the window and the live cell, whose word is given.
func (en *entry) newest(word uint64) (second int64, seen bool) {
	second, seen = en.window.Newest()
	if word < live.Special && live.Hits(word) > 0 {
		second, seen = max(second, live.Second(word)), true
	}
	return second, seen
}
