package keytable

import "unsafe"

// Entry is a key with its value, in one piece of memory: a look-up that has read the value has the
// key at hand. Entries are made by New alone, and must not be copied: what is longer than short
// lies behind them.
type Entry[T any] struct {
	Value T
	sizes uint16 // of the key, in bytes, and above lengthBits of the room, in words
	short [shortKey]byte
}

// lengthBits are enough for the longest key.
const lengthBits = 10

// shortKey is the longest key of an entry that has no more than a value and a key's least room: with
// a value of 48 bytes it is a cache line.
const shortKey = 14

// Long tells whether a key goes on behind its entry.
func Long(key string) bool { return len(key) > shortKey }

// Key is the entry's key. It keeps the whole entry in memory.
func (e *Entry[T]) Key() string {
	return unsafe.String(&e.short[0], int(e.sizes&(1<<lengthBits-1)))
}

// Room is what NewWithRoom gave the value's owner behind the key: numbers, no pointers. It keeps the
// whole entry in memory.
func (e *Entry[T]) Room() []int64 {
	words := int(e.sizes >> lengthBits)
	if words == 0 {
		return nil
	}
	return unsafe.Slice((*int64)(unsafe.Add(unsafe.Pointer(e), roomAt[T](len(e.Key())))), words)
}

// roomAt is where the room of an entry begins, behind a key of that length.
func roomAt[T any](length int) int {
	var e Entry[T]
	return (int(unsafe.Offsetof(e.short)) + length + 7) &^ 7
}

// longer is an entry with room for more bytes of its key.
type longer[T, Room any] struct {
	Entry[T]
	_ Room
}

// New returns an entry of a key of at most 512 bytes, with the zero value.
func New[T any](key string) *Entry[T] { return NewWithRoom[T](key, 0) }

// NewWithRoom is New with room for so many words, at most 63.
func NewWithRoom[T any](key string, words int) *Entry[T] {
	var e *Entry[T]
	switch size := behind[T](len(key), words); size {
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
	case 80:
		e = &new(longer[T, [80]byte]).Entry
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
	case 512:
		e = &new(longer[T, [512]byte]).Entry
	default:
		e = &new(longer[T, [1024]byte]).Entry
	}
	e.sizes = uint16(words<<lengthBits | len(key))
	copy(unsafe.Slice(&e.short[0], len(key)), key)
	return e
}

// Bytes is the memory of an entry with a key of that length.
func Bytes[T any](length int) int64 { return BytesWithRoom[T](length, 0) }

// BytesWithRoom is Bytes of an entry with room for so many words.
func BytesWithRoom[T any](length, words int) int64 {
	return int64(unsafe.Sizeof(Entry[T]{})) + int64(behind[T](length, words))
}

// steps are what entries have behind them for keys that are not short, and for room, in bytes: with a
// value of 48 bytes, sizes of the allocator.
var steps = [...]int{0, 16, 32, 48, 64, 80, 96, 128, 192, 256, 384, 512}

// behind is what an entry has behind it.
func behind[T any](length, words int) int {
	need := length - shortKey
	if words > 0 {
		need = roomAt[T](length) + 8*words - int(unsafe.Sizeof(Entry[T]{}))
	}
	for _, step := range steps {
		if need <= step {
			return step
		}
	}
	return 1024
}
