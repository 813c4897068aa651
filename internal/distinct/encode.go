package distinct

import (
	"encoding/binary"
	"math/bits"

	"github.com/weir-counter/weir/internal/wire"
)

// The bytes of a set, numbers as unsigned varints:
//
//	byte 0   version, 1
//	byte 1   precision of the sketch; 0: there is none
//	         newest second, and its difference to the floor, 0: the list lacks no id
//	         ids of the list: how many, then each as 8 bytes of its hash, little endian and in order, and
//	         the difference of its second to the newest
//	         with a sketch, its slots: how many, then each as the difference of its first second to the
//	         slot's before, how many entries, and each in 2 bytes, little endian and in order
//
// Sets with the same ids have the same bytes, apart from the precision.
const encodingVersion = 1

// Append appends the bytes of the set, which it settles.
func (s *Set) Append(b []byte) []byte {
	s.settle()
	k := s.sketch
	precision := uint8(0)
	if k != nil {
		precision = k.precision
	}
	b = append(b, encodingVersion, precision)
	b = binary.AppendUvarint(b, uint64(s.newest+1))
	floor := uint64(0)
	if s.floor >= 0 {
		floor = uint64(s.newest-s.floor) + 1
	}
	b = binary.AppendUvarint(b, floor)
	b = binary.AppendUvarint(b, uint64(len(s.hashes)))
	for i, hash := range s.hashes {
		b = binary.LittleEndian.AppendUint64(b, hash)
		b = binary.AppendUvarint(b, uint64(s.newest-int64(s.seconds[i])))
	}
	if k == nil {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(k.starts)))
	last := uint32(0)
	for i, start := range k.starts {
		from, to := k.slot(i)
		b = binary.AppendUvarint(b, uint64(start-last))
		b = binary.AppendUvarint(b, uint64(to-from))
		for _, e := range k.entries[from:to] {
			b = binary.LittleEndian.AppendUint16(b, e)
		}
		last = start
	}
	return b
}

// Read reads what Append wrote, for a retention in seconds. It fails the reader if that is invalid.
func Read(r *wire.Reader, retention int64) *Set {
	s := New(retention)
	version, precision := r.Byte(), r.Byte()
	s.newest = int64(r.AtMost(MaxSecond+1)) - 1
	if floor := r.AtMost(uint64(s.newest + 1)); floor > 0 {
		s.floor = s.newest - int64(floor) + 1
	}
	n := r.AtMost(Few)
	if version != encodingVersion || r.Failed() || int(n) > r.Len()/9 {
		r.Fail()
		return s
	}
	s.hashes, s.seconds = make([]uint64, n), make([]uint32, n)
	for i := range s.hashes {
		s.hashes[i] = r.Uint64()
		s.seconds[i] = uint32(s.newest - int64(r.AtMost(uint64(max(s.newest, 0)))))
		if i > 0 && s.hashes[i] <= s.hashes[i-1] || s.newest < 0 {
			r.Fail()
		}
	}
	if precision != 0 {
		s.sketch = readSketch(r, precision, s.newest)
	}
	if (s.floor >= 0) != (s.sketch != nil) { // once the floor is older than the retention, neither is there
		r.Fail()
	}
	if !r.Failed() {
		s.settle()
	}
	return s
}

func readSketch(r *wire.Reader, precision uint8, newest int64) *sketch {
	k := &sketch{precision: precision, aligned: newest}
	slots := r.AtMost(maxSlots)
	if precision < minPrecision || precision > maxPrecision || newest < 0 || r.Failed() || int(slots) > r.Len()/4 {
		r.Fail()
		return k
	}
	last := int64(-1)
	for i := range slots {
		start := int64(r.AtMost(uint64(newest)))
		if i > 0 {
			start += last
		}
		n := int(r.AtMost(1 << maxPrecision))
		if r.Failed() || start <= last || start > newest || n == 0 || n > r.Len()/2 || len(k.entries)+n > sketchBytes/entryBytes {
			r.Fail()
			return k
		}
		if first, _ := slotOf(start, newest); first != start {
			r.Fail()
		}
		before := -1
		for range n {
			e := binary.LittleEndian.Uint16(r.Bytes(2))
			if register := int(e >> rankBits); register <= before || e&maxRank == 0 || bits.Len(uint(register)) > int(precision) {
				r.Fail()
			} else {
				before = register
			}
			k.entries = append(k.entries, e)
		}
		k.starts, k.ends = append(k.starts, uint32(start)), append(k.ends, uint16(len(k.entries)))
		last = start
	}
	return k
}
