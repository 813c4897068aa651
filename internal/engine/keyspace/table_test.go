package keyspace

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"
)

// value is as large as those of hits and of limits.
type value [6]uint64

func TestAnEntryIsACacheLine(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(Entry[value]{}); size != 64 {
		t.Errorf("an entry is %d bytes, want 64", size)
	}
}

func TestKeysOfAllLengths(t *testing.T) {
	t.Parallel()
	for length := 1; length <= 512; length++ {
		key := strings.Repeat("k", length-1) + "x"
		e := NewEntry[value](key)
		e.Value = value{1, 2, 3, 4, 5, 6}
		if got := e.Key(); got != key {
			t.Fatalf("key of %d bytes is %q", length, got)
		}
		if free := EntryBytes[value](length) - 50 - int64(length); free < 0 {
			t.Fatalf("a key of %d bytes has no space: %d too few", length, -free)
		}
	}
}

// poorHashes are masks of a hash: all bits, hardly any so that buckets spill, and none.
var poorHashes = []uint64{1<<64 - 1, 0xfe00_0000_0000_0003, 0}

func masked(mask uint64) func(key string) uint64 {
	return func(key string) uint64 {
		h := uint64(14695981039346656037)
		for _, b := range []byte(key) {
			h = (h ^ uint64(b)) * 1099511628211
		}
		return h & mask
	}
}

// The table against a Go map, with a hash so poor that buckets spill.
func TestTableAgainstMap(t *testing.T) {
	t.Parallel()
	for _, mask := range poorHashes {
		hash := masked(mask)
		tab, want := NewKeyTable[value](), map[string]*Entry[value]{}
		r := rand.New(rand.NewPCG(1, mask))
		for range 20_000 {
			key := fmt.Sprint(r.IntN(600))
			switch e := want[key]; {
			case e == nil:
				if tab.Full() {
					tab = tab.Resized(func(e *Entry[value]) uint64 { return hash(e.Key()) })
				}
				e = NewEntry[value](key)
				tab.Insert(hash(key), e)
				want[key] = e
			case r.IntN(2) == 0:
				tab.Remove(hash(key), e)
				delete(want, key)
			}
			probe := fmt.Sprint(r.IntN(600))
			if got := tab.Find(hash(probe), probe); got != want[probe] {
				t.Fatalf("Find(%s) = %p, want %p", probe, got, want[probe])
			}
		}
		seen := map[*Entry[value]]bool{}
		tab.Each(func(e *Entry[value]) { seen[e] = true })
		if len(seen) != len(want) || tab.Len() != len(want) {
			t.Errorf("Each saw %d entries, Len is %d, want %d", len(seen), tab.Len(), len(want))
		}
		for key, e := range want {
			tab.Remove(hash(key), e)
			if tab.Sparse() {
				tab = tab.Resized(func(e *Entry[value]) uint64 { return hash(e.Key()) })
			}
		}
		if tab.Len() != 0 || tab.Buckets() != 1 {
			t.Errorf("the empty table has %d entries and %d buckets", tab.Len(), tab.Buckets())
		}
	}
}

// Entries of one key are all found, with equal hashes too.
func TestSeveralEntriesOfAKey(t *testing.T) {
	t.Parallel()
	tab := newTable[value](4)
	want := map[*Entry[value]]bool{}
	for range 20 {
		e := NewEntry[value]("k")
		tab.Insert(7, e)
		want[e] = true
	}
	for e := tab.Find(7, "k"); e != nil; e = tab.Next(7, "k", e) {
		delete(want, e)
	}
	if len(want) > 0 {
		t.Errorf("%d entries of 20 were not found", len(want))
	}
}

// Where keys come and go, buckets that were full once do not send look-ups on for ever.
func TestChurnLeavesNoTrace(t *testing.T) {
	t.Parallel()
	hash := masked(1<<64 - 1)
	tab := newTable[value](128)
	var queue []*Entry[value]
	for i := range 100_000 {
		e := NewEntry[value](fmt.Sprint(i))
		tab.Insert(hash(e.Key())*0x9E3779B97F4A7C15, e)
		if queue = append(queue, e); len(queue) == 600 {
			tab.Remove(hash(queue[0].Key())*0x9E3779B97F4A7C15, queue[0])
			queue = queue[1:]
		}
	}
	for _, e := range queue {
		tab.Remove(hash(e.Key())*0x9E3779B97F4A7C15, e)
	}
	for i := range tab.buckets {
		if tags := tab.buckets[i].tags.Load(); tags != 0 && tags < allSpill {
			t.Fatalf("bucket %d of an empty table has tags %x", i, tags)
		}
	}
}

// Space lies behind the key, aligned, within the memory that the entry is said to take, and changes neither
// key nor value.
func TestSpace(t *testing.T) {
	t.Parallel()
	for length := 1; length <= 512; length++ {
		for _, words := range []int{0, 1, 7, 17, 63} {
			key := strings.Repeat("k", length-1) + "x"
			e := NewWithSpace[value](key, words)
			e.Value = value{1, 2, 3, 4, 5, 6}
			space := e.Space()
			if len(space) != words {
				t.Fatalf("a key of %d bytes has %d words of space, want %d", length, len(space), words)
			}
			for i := range space {
				if space[i] != 0 {
					t.Fatalf("a key of %d bytes, %d words: word %d is %d", length, words, i, space[i])
				}
				space[i] = -1
			}
			if e.Key() != key || e.Value != (value{1, 2, 3, 4, 5, 6}) {
				t.Fatalf("a key of %d bytes, %d words: %q, %v", length, words, e.Key(), e.Value)
			}
			if words == 0 {
				continue
			}
			begin := uintptr(unsafe.Pointer(&space[0])) - uintptr(unsafe.Pointer(e))
			if end := int64(begin) + 8*int64(words); begin%8 != 0 || end > EntryBytesWithSpace[value](length, words) {
				t.Fatalf("a key of %d bytes: space from %d to %d of %d bytes", length, begin, end, EntryBytesWithSpace[value](length, words))
			}
		}
	}
}

// A key of up to 22 bytes with the space that limits ask for is two cache lines at most.
func TestSpaceOfTwoCacheLines(t *testing.T) {
	t.Parallel()
	for _, length := range []int{1, 14, 22} {
		if size := EntryBytesWithSpace[value](length, 7); size > 128 {
			t.Errorf("an entry of a key of %d bytes with space for 7 words is %d bytes, want 128 at most", length, size)
		}
	}
}
