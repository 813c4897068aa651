package admission

import (
	"math/bits"
	"unsafe"
)

// table maps the IDs of one share to states, under the share's lock. A slot
// is a number: 32 bits of the hash and the place of the state in chunks of an
// array, so that a look-up costs three cache misses: the slot, the state, the
// bytes of the key. Slots are probed one after the other (linear probing, Knuth,
// vol. 3, 6.4), and deleting moves later ones up, so that no grave slows it down.
//
// It is our own because Go's map, with the ID beside a pointer to the state, takes
// two misses and 16 bytes more for each.
type table struct {
	slots  []uint64 // a power of two; hash << 32 | place+1, or 0
	chunks []*[chunkSize]keyState
	free   []uint32 // places
	used   int
	hand   int // the place where the next search for idle states begins
}

const (
	chunkShift = 3 // 8 states of a cache line each: Go gives larger objects a header
	chunkSize  = 1 << chunkShift

	// stateBytes is the memory of a state beside its cells and the bytes of its
	// key: itself, and its slot in a table that is three eighths to three quarters full, and
	// a pointer to its chunk.
	stateBytes = int64(unsafe.Sizeof(keyState{})) + 14
)

func (t *table) at(place uint32) *keyState {
	return &t.chunks[place>>chunkShift][place%chunkSize]
}

// find returns the state of an ID, or nil.
func (t *table) find(hash uint32, name *Name, key string) *keyState {
	if place, ok := t.lookup(hash, name, key); ok {
		return t.at(place)
	}
	return nil
}

// lookup returns the place of the state of an ID.
func (t *table) lookup(hash uint32, name *Name, key string) (place uint32, ok bool) {
	mask := uint32(len(t.slots) - 1)
	if t.used == 0 {
		return 0, false
	}
	for i := hash & mask; t.slots[i] != 0; i = (i + 1) & mask {
		if uint32(t.slots[i]>>32) == hash {
			place = uint32(t.slots[i]) - 1
			if st := t.at(place); st.key == key && st.plan.Name == name {
				return place, true
			}
		}
	}
	return 0, false
}

// insert makes a state whose ID is not in the table. Others stay where they are.
func (t *table) insert(hash uint32) *keyState {
	if 4*(t.used+1) > 3*len(t.slots) {
		t.resize(max(8, 2*len(t.slots)))
	}
	if len(t.free) == 0 {
		first := uint32(len(t.chunks)) << chunkShift
		t.chunks = append(t.chunks, new([chunkSize]keyState))
		for i := range uint32(chunkSize) {
			t.free = append(t.free, first+chunkSize-1-i)
		}
	}
	place := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.used++
	t.put(uint64(hash)<<32 | uint64(place+1))
	return t.at(place)
}

func (t *table) put(slot uint64) {
	mask := uint32(len(t.slots) - 1)
	i := uint32(slot>>32) & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = slot
}

func (t *table) resize(slots int) {
	old := t.slots
	t.slots = make([]uint64, slots)
	for _, slot := range old {
		if slot != 0 {
			t.put(slot)
		}
	}
}

// remove takes out the state at a place, whose ID has the hash.
func (t *table) remove(place, hash uint32) {
	mask := uint32(len(t.slots) - 1)
	hole := hash & mask
	for uint32(t.slots[hole]) != place+1 {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; t.slots[i] != 0; i = (i + 1) & mask {
		home := uint32(t.slots[i]>>32) & mask
		if (i-home)&mask >= (i-hole)&mask { // its home is at the hole or before it
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = 0
	*t.at(place) = keyState{}
	t.free = append(t.free, place)
	t.used--
}

// places is how many states the chunks have room for.
func (t *table) places() int { return len(t.chunks) << chunkShift }

// each calls f with every state.
func (t *table) each(f func(*keyState)) {
	for _, chunk := range t.chunks {
		for i := range chunk {
			if chunk[i].plan != nil {
				f(&chunk[i])
			}
		}
	}
}

// shrink moves the states into a table of their number.
func (t *table) shrink(hash func(*Name, string) uint32) {
	var small table
	small.resize(max(8, 1<<bits.Len(uint(2*t.used))))
	t.each(func(st *keyState) { *small.insert(hash(st.plan.Name, st.key)) = *st })
	*t = small
}
