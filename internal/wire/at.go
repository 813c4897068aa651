package wire

import "encoding/binary"

// UvarintAt reads an unsigned number at a place in b, and tells the place after it: one beyond the end of b says
// that there is none. Most are below 128.
func UvarintAt(b []byte, at int) (v uint64, after int) {
	if at < len(b) && b[at] < 0x80 {
		return uint64(b[at]), at + 1
	}
	return longUvarint(b, at)
}

func longUvarint(b []byte, at int) (v uint64, after int) {
	if at < len(b) {
		if v, n := binary.Uvarint(b[at:]); n > 0 {
			return v, at + n
		}
	}
	return 0, len(b) + 1
}
