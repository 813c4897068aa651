package keyspace

import (
	"math/bits"
	"strings"
	"sync/atomic"
	"unsafe"
)

// This file has the hash table of keys for hits and limits. An entry has its key in it, takes a cache line, and is
// found without a lock (docs/decisions/0002-own-table.md).

// KeyTable maps keys to entries. Readers take no lock; writers hold their caller's. It is a hash table of buckets of
// one cache line. A bucket has seven pointers, and a word of seven tags (bits of the hash) that are compared all at
// once. So a look-up costs two cache misses, the bucket and the entry. A full bucket spills into the next one; its
// eighth byte counts how many entries went on.
//
// The layout is the one of xsync's and Go's own (Swiss) maps, the count is F14's. A general map would hold key and
// value a second time, in addition to the entry. That costs some 40 of the 150 bytes that a sparse key may take, and
// two cache misses more.
//
// It does not grow by itself: see Full and Resized. Hashes are the caller's. Several entries may have the same key, if
// the hash includes what distinguishes them (Next).
type KeyTable[T any] struct {
	buckets []bucket[T] // a power of two
	used    int
}

type bucket[T any] struct {
	tags  atomic.Uint64 // byte i: tag of slot i, 0 empty; byte 7: entries that went on to the next bucket
	slots [bucketSlots]atomic.Pointer[Entry[T]]
}

const (
	bucketSlots = 7
	maxLoad     = bucketSlots - 1 // mean entries per bucket before the table grows

	lowBytes = 0x01_01_01_01_01_01_01_01
	highBits = 0x80_80_80_80_80_80_80_80
	oneSpill = 1 << 56
	allSpill = 0xff << 56 // so many that they are no longer counted
)

// NewKeyTable returns an empty one of the smallest size.
func NewKeyTable[T any]() *KeyTable[T] { return newTable[T](1) }

func newTable[T any](buckets int) *KeyTable[T] {
	return &KeyTable[T]{buckets: make([]bucket[T], buckets)}
}

// Len is how many entries there are. The caller holds the writers' lock.
func (t *KeyTable[T]) Len() int { return t.used }

// Bytes is the memory of the table without entries.
func (t *KeyTable[T]) Bytes() int64 { return int64(len(t.buckets)) * int64(unsafe.Sizeof(bucket[T]{})) }

// Buckets is how many buckets there are, for EachIn.
func (t *KeyTable[T]) Buckets() int { return len(t.buckets) }

// After is the bucket after another one; after the last comes the first.
func (t *KeyTable[T]) After(i int) int { return (i + 1) & (len(t.buckets) - 1) }

// Full reports whether the table can't take one more entry.
func (t *KeyTable[T]) Full() bool { return t.used >= len(t.buckets)*maxLoad }

// Sparse reports whether a table of half the size could take four times the entries.
func (t *KeyTable[T]) Sparse() bool { return len(t.buckets) > 1 && t.used < len(t.buckets)*maxLoad/8 }

// tag is never 0, and independent of the bits that choose the bucket.
func tag(hash uint64) uint64 { return hash>>57 | 0x80 }

func (t *KeyTable[T]) home(hash uint64) int { return int(hash & uint64(len(t.buckets)-1)) }

// Expect asks for the key's bucket, before anybody looks into it.
func (t *KeyTable[T]) Expect(hash uint64) { PrefetchRead(unsafe.Pointer(&t.buckets[t.home(hash)])) }

// ExpectEntry asks for the entry that the key most likely has, to be written. It waits for the bucket,
// and not for the entry.
func (t *KeyTable[T]) ExpectEntry(hash uint64) {
	b := &t.buckets[t.home(hash)]
	if match := matches(b.tags.Load(), tag(hash)*lowBytes); match != 0 {
		PrefetchWrite(unsafe.Pointer(b.slots[bits.TrailingZeros64(match)/8].Load()))
	}
}

// Find returns the key's entry, or nil.
func (t *KeyTable[T]) Find(hash uint64, key string) *Entry[T] {
	want := tag(hash) * lowBytes
	for i, hops := t.home(hash), 0; hops < len(t.buckets); i, hops = t.After(i), hops+1 {
		b := &t.buckets[i]
		tags := b.tags.Load()
		for match := matches(tags, want); match != 0; match &= match - 1 {
			e := b.slots[bits.TrailingZeros64(match)/8].Load()
			if e != nil && e.Key() == key {
				return e
			}
		}
		if tags < oneSpill {
			break
		}
	}
	return nil
}

// Next returns another entry of the key, the one that comes after one that Find or Next gave, or nil.
func (t *KeyTable[T]) Next(hash uint64, key string, after *Entry[T]) *Entry[T] {
	for i, hops := t.home(hash), 0; hops < len(t.buckets); i, hops = t.After(i), hops+1 {
		b := &t.buckets[i]
		tags := b.tags.Load()
		for match := matches(tags, tag(hash)*lowBytes); match != 0; match &= match - 1 {
			e := b.slots[bits.TrailingZeros64(match)/8].Load()
			switch {
			case e == after:
				after = nil
			case after == nil && e != nil && e.Key() == key:
				return e
			}
		}
		if tags < oneSpill {
			break
		}
	}
	return nil
}

// matches has the high bit of each byte that is equal in tags and want, and of few others; of the seven of slots.
func matches(tags, want uint64) uint64 {
	// A byte of diff is 0 where the tag matches. All tags have their high bit
	// set, so a borrow from a match may only raise a false one above it.
	diff := tags ^ want
	return (diff - lowBytes) &^ diff & highBits &^ allSpill
}

// Insert adds an entry that is not in the table, which is not full.
func (t *KeyTable[T]) Insert(hash uint64, e *Entry[T]) {
	t.used++
	for i := t.home(hash); ; i = t.After(i) {
		b := &t.buckets[i]
		tags := b.tags.Load()
		if free := ^tags & highBits &^ allSpill; free != 0 {
			slot := bits.TrailingZeros64(free) / 8
			b.slots[slot].Store(e)
			b.tags.Store(tags | tag(hash)<<(8*slot))
			return
		}
		if tags < allSpill {
			b.tags.Store(tags + oneSpill)
		}
	}
}

// Remove takes out an entry that is in the table.
func (t *KeyTable[T]) Remove(hash uint64, e *Entry[T]) {
	for i := t.home(hash); ; i = t.After(i) {
		b := &t.buckets[i]
		for slot := range b.slots {
			if b.slots[slot].Load() == e {
				b.tags.Store(b.tags.Load() &^ (0xff << (8 * slot)))
				b.slots[slot].Store(nil)
				t.used--
				return
			}
		}
		if tags := b.tags.Load(); tags < allSpill { // e went on from here
			b.tags.Store(tags - oneSpill)
		}
	}
}

// Resized is a table of twice the size if t is full, or else of half, with the same entries.
// Readers of t go on to see those that were there.
func (t *KeyTable[T]) Resized(hash func(e *Entry[T]) uint64) *KeyTable[T] {
	buckets := len(t.buckets) / 2
	if t.Full() {
		buckets = len(t.buckets) * 2
	}
	made := newTable[T](buckets)
	t.Each(func(e *Entry[T]) { made.Insert(hash(e), e) })
	return made
}

// Each calls f with every entry. Entries that come or go meanwhile may be missed.
func (t *KeyTable[T]) Each(f func(*Entry[T])) {
	for i := range t.buckets {
		t.EachIn(i, f)
	}
}

// Empty reports whether a bucket has no entries.
func (t *KeyTable[T]) Empty(bucket int) bool { return t.buckets[bucket].tags.Load()&^allSpill == 0 }

// EachIn is Each of one bucket.
func (t *KeyTable[T]) EachIn(bucket int, f func(*Entry[T])) {
	if t.Empty(bucket) {
		return
	}
	b := &t.buckets[bucket]
	for slot := range b.slots {
		if e := b.slots[slot].Load(); e != nil {
			f(e)
		}
	}
}

// EachWith is Each of the entries whose keys begin with prefix.
func (t *KeyTable[T]) EachWith(prefix string, f func(*Entry[T])) {
	t.Each(func(e *Entry[T]) {
		if strings.HasPrefix(e.Key(), prefix) {
			f(e)
		}
	})
}

// Entry is a key with its value, in one piece of memory: a look-up that has read the value has the key at hand. Entries
// are made by New alone, and must not be copied: what is longer than short lies behind them.
type Entry[T any] struct {
	Value T
	sizes uint16 // of the key, in bytes, and above lengthBits of the reserved space, in words
	short [shortKey]byte
}

// lengthBits are enough for the longest key.
const lengthBits = 10

// shortKey is the longest key of an entry without memory behind it. With a value of 48 bytes, such an entry is a cache
// line.
const shortKey = 14

// LongKey reports whether a key goes on behind its entry.
func LongKey(key string) bool { return len(key) > shortKey }

// Key is the entry's key. It keeps the whole entry in memory.
func (e *Entry[T]) Key() string {
	return unsafe.String(&e.short[0], int(e.sizes&(1<<lengthBits-1)))
}

// `Space` returns the space that NewWithSpace reserved for the value's owner behind the key: numbers, no pointers. It
// keeps the whole entry in memory.
func (e *Entry[T]) Space() []int64 {
	words := int(e.sizes >> lengthBits)
	if words == 0 {
		return nil
	}
	return unsafe.Slice((*int64)(unsafe.Add(unsafe.Pointer(e), spaceAt[T](len(e.Key())))), words)
}

// spaceAt returns where the reserved space of an entry begins, behind a key of that length.
func spaceAt[T any](length int) int {
	var e Entry[T]
	return (int(unsafe.Offsetof(e.short)) + length + 7) &^ 7
}

// longer is an entry with more memory for the bytes of its key.
type longer[T, Space any] struct {
	Entry[T]
	_ Space
}

// NewEntry returns an entry of a key of at most 512 bytes, with the zero value.
func NewEntry[T any](key string) *Entry[T] { return NewWithSpace[T](key, 0) }

// NewWithSpace is NewEntry with space for a number of words, at most 63.
func NewWithSpace[T any](key string, words int) *Entry[T] {
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

// EntryBytes is the memory of an entry with a key of that length.
func EntryBytes[T any](length int) int64 { return EntryBytesWithSpace[T](length, 0) }

// EntryBytesWithSpace is EntryBytes of an entry with space for a number of words.
func EntryBytesWithSpace[T any](length, words int) int64 {
	return int64(unsafe.Sizeof(Entry[T]{})) + int64(behind[T](length, words))
}

// steps are the sizes of the memory behind an entry, in bytes, for long keys and reserved space. With a value of 48
// bytes, the entry then has a size of the allocator.
var steps = [...]int{0, 16, 32, 48, 64, 80, 96, 128, 192, 256, 384, 512}

// behind is what an entry has behind it.
func behind[T any](length, words int) int {
	need := length - shortKey
	if words > 0 {
		need = spaceAt[T](length) + 8*words - int(unsafe.Sizeof(Entry[T]{}))
	}
	for _, step := range steps {
		if need <= step {
			return step
		}
	}
	return 1024
}
