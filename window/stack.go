package window

import (
	"math"
	"unsafe"
)

// stack is where the bytes of pairs are: in the Window itself while they are few, so that a key that is
// hit now and then is one piece of memory, or in memory of their own.
type stack struct {
	far              *byte // the first of capacity bytes; nil: they are near
	length, capacity uint16
	near             [12]byte // 3 to 12 pairs
}

// pairs is the bytes, for reading, and for changes whose result is kept.
func (s *stack) pairs() pairs {
	if s.far != nil {
		return unsafe.Slice(s.far, s.capacity)[:s.length]
	}
	return s.near[:s.length]
}

// keep puts p, which pairs may have given, in place of what is there. It keeps p's memory, if p is not small.
func (s *stack) keep(p pairs) {
	switch first := unsafe.SliceData(p); {
	case len(p) > len(s.near):
		s.far, s.capacity = first, uint16(min(cap(p), math.MaxUint16))
	case first != s.far:
		s.far, s.capacity = nil, 0
		copy(s.near[:], p)
	}
	s.length = uint16(len(p))
}
