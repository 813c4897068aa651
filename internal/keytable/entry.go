package keytable

import "unsafe"

// Entry is a key with its value, in one piece of memory: a look-up that has read the value has the
// key at hand. Entries are made by New alone, and must not be copied: what is longer than short
// lies behind them.
type Entry[T any] struct {
	Value  T
	length uint16
	short  [shortKey]byte
}

// shortKey is the longest key of an entry that has no more than a value and a key's least room: with
// a value of 48 bytes it is a cache line.
const shortKey = 14

// Key is the entry's key. It keeps the whole entry in memory.
func (e *Entry[T]) Key() string { return unsafe.String(&e.short[0], int(e.length)) }

// longer is an entry with room for more bytes of its key.
type longer[T, Room any] struct {
	Entry[T]
	_ Room
}

// New returns an entry of a key of at most 512 bytes, with the zero value.
func New[T any](key string) *Entry[T] {
	var e *Entry[T]
	switch room := roomFor(len(key)); room {
	case 0:
		e = new(Entry[T])
	case 16:
		e = &new(longer[T, [16]byte]).Entry
	case 32:
		e = &new(longer[T, [32]byte]).Entry
	case 48:
		e = &new(longer[T, [48]byte]).Entry
	case 64:
		e = &new(longer[T, [64]byte]).Entry
	case 96:
		e = &new(longer[T, [96]byte]).Entry
	case 128:
		e = &new(longer[T, [128]byte]).Entry
	case 192:
		e = &new(longer[T, [192]byte]).Entry
	case 256:
		e = &new(longer[T, [256]byte]).Entry
	case 384:
		e = &new(longer[T, [384]byte]).Entry
	default:
		e = &new(longer[T, [512]byte]).Entry
	}
	e.length = uint16(len(key))
	copy(unsafe.Slice(&e.short[0], len(key)), key)
	return e
}

// Bytes is the memory of an entry with a key of that length.
func Bytes[T any](length int) int64 {
	return int64(unsafe.Sizeof(Entry[T]{})) + int64(roomFor(length))
}

// rooms are what entries have behind them for keys that are not short, in bytes: with a value of 48
// bytes, sizes of the allocator.
var rooms = [...]int{0, 16, 32, 48, 64, 96, 128, 192, 256, 384}

func roomFor(length int) int {
	for _, room := range rooms {
		if length <= shortKey+room {
			return room
		}
	}
	return 512
}
