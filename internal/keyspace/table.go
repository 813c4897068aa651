package keyspace

import (
	"math/bits"
	"strings"
	"sync/atomic"
	"unsafe"
)

// table maps the keys of one partition to entries. Readers take no lock;
// writers hold the partition's. It is a hash table of buckets of one cache line:
// seven pointers and a word of seven tags (bits of the hash), compared all at
// once, so that a look-up costs three cache misses: the bucket, the entry, the
// key. A full bucket spills into the next one and says so in the eighth byte.
//
// The layout is the one of xsync's and Go's own (Swiss) maps. It is our own
// because a general map holds key and value once more beside the entry, some 40
// bytes of the 150 that a sparse key may take, and another cache miss.
type table struct {
	buckets []bucket // a power of two
}

type bucket struct {
	tags  atomic.Uint64 // byte i: tag of slot i, 0 empty; byte 7: 1 if ever spilled
	slots [bucketSlots]atomic.Pointer[entry]
}

const (
	bucketSlots = 7
	maxLoad     = bucketSlots - 1 // mean entries per bucket before the table grows

	lowBytes  = 0x01_01_01_01_01_01_01_01
	highBits  = 0x80_80_80_80_80_80_80_80
	spillFlag = 1 << 56
)

func newTable(buckets int) *table { return &table{buckets: make([]bucket, buckets)} }

// size is the memory of the table, in bytes.
func (t *table) size() int64 { return int64(len(t.buckets)) * int64(unsafe.Sizeof(bucket{})) }

// tag is never 0, and independent of the bits that choose the bucket.
func tag(hash uint64) uint64 { return hash>>57 | 0x80 }

func (t *table) home(hash uint64) int { return int(hash & uint64(len(t.buckets)-1)) }
func (t *table) next(i int) int       { return (i + 1) & (len(t.buckets) - 1) }

// touch brings the key's bucket into the cache.
func (t *table) touch(hash uint64) { t.buckets[t.home(hash)].tags.Load() }

// touchEntry brings the entry into the cache that the key most likely has, once its bucket is
// there.
func (t *table) touchEntry(hash uint64) {
	b := &t.buckets[t.home(hash)]
	if match := matches(b.tags.Load(), tag(hash)*lowBytes); match != 0 {
		if en := b.slots[bits.TrailingZeros64(match)/8].Load(); en != nil {
			en.cell.Word.Load()
		}
	}
}

// find returns the key's entry, or nil.
func (t *table) find(hash uint64, key string) *entry {
	want := tag(hash) * lowBytes
	for i, hops := t.home(hash), 0; hops < len(t.buckets); i, hops = t.next(i), hops+1 {
		b := &t.buckets[i]
		tags := b.tags.Load()
		for match := matches(tags, want); match != 0; match &= match - 1 {
			en := b.slots[bits.TrailingZeros64(match)/8].Load()
			if en != nil && en.key == key {
				return en
			}
		}
		if tags&spillFlag == 0 {
			break
		}
	}
	return nil
}

// matches has the high bit of each byte that is equal in tags and want, and of few others; of
// the seven of slots.
func matches(tags, want uint64) uint64 {
	// A byte of diff is 0 where the tag matches. All tags have their high bit
	// set, so a borrow from a match may only raise a false one above it.
	diff := tags ^ want
	return (diff - lowBytes) &^ diff & highBits &^ (0xff << 56)
}

// insert adds an entry whose key is not in the table; there is room.
func (t *table) insert(hash uint64, en *entry) {
	for i := t.home(hash); ; i = t.next(i) {
		b := &t.buckets[i]
		tags := b.tags.Load()
		for slot := range bucketSlots {
			if tags>>(8*slot)&0xff == 0 {
				b.slots[slot].Store(en)
				b.tags.Store(tags | tag(hash)<<(8*slot))
				return
			}
		}
		b.tags.Store(tags | spillFlag)
	}
}

// remove takes an entry out.
func (t *table) remove(hash uint64, en *entry) {
	for i, hops := t.home(hash), 0; hops < len(t.buckets); i, hops = t.next(i), hops+1 {
		b := &t.buckets[i]
		for slot := range bucketSlots {
			if b.slots[slot].Load() == en {
				b.tags.Store(b.tags.Load() &^ (0xff << (8 * slot)))
				b.slots[slot].Store(nil)
				return
			}
		}
	}
}

// each calls f with every entry. Entries that come or go meanwhile may be missed.
func (t *table) each(f func(*entry)) {
	for i := range t.buckets {
		t.eachIn(i, f)
	}
}

func (t *table) eachIn(bucket int, f func(*entry)) {
	b := &t.buckets[bucket]
	if b.tags.Load()&^(0xff<<56) == 0 {
		return
	}
	for slot := range b.slots {
		if en := b.slots[slot].Load(); en != nil {
			f(en)
		}
	}
}

// eachWith calls f with every entry whose key begins with prefix.
func (t *table) eachWith(prefix string, f func(*entry)) {
	t.each(func(en *entry) {
		if strings.HasPrefix(en.key, prefix) {
			f(en)
		}
	})
}
