package weir

import (
	"unsafe"

	"github.com/weir-counter/weir/window"
)

// entry is one key: its live cell and its window. It is 64 bytes, a cache line
// and a size of the allocator.
type entry struct {
	cell   cell
	key    string
	window window.Window // guarded by the partition's lock
}

// keyBytes is the memory of an entry and its key, beside the window's.
func keyBytes(key string) int64 {
	return int64(unsafe.Sizeof(entry{})-unsafe.Sizeof(window.Window{})) + int64((len(key)+7)&^7)
}

// add counts n hits at a second where the live cell does not stand, or that it
// can't hold. The cell is not special, and the caller holds the partition's lock.
func (en *entry) add(second int64, n uint64) Outcome {
	word := en.cell.word.Load()
	newest, seen := en.newest(word)
	if seen && second <= newest-en.window.Retention() {
		return TooLate
	}
	if seen && second < newest || n > cellMaxHits {
		en.window.Add(second, n)
	} else {
		foldWord(&en.window, en.cell.word.Swap(packCell(second, false, n)))
	}
	if seen && second < newest {
		return Late
	}
	return Counted
}

// newest is the latest second of the window and the live cell, whose word is given.
func (en *entry) newest(word uint64) (second int64, seen bool) {
	second, seen = en.window.Newest()
	if word < cellSpecial && cellHits(word) > 0 {
		second, seen = max(second, cellSecond(word)), true
	}
	return second, seen
}
