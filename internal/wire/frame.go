package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A frame is what is stored as one: a byte that says what it is, a byte with the version
// of its content, the content, and the CRC-32C of all before, little endian.

// SumBytes is the length of a checksum.
const SumBytes = 4

// headBytes are the byte that says what a frame is, and its version.
const headBytes = 2

// ErrOther is the error for bytes that do not begin as the frame that was asked for.
var ErrOther = errors.New("it does not begin as one")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the checksum of b, CRC-32C.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// AddSum is the checksum of what sum is of, and b after it.
func AddSum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// Seal ends a frame that begins at b[start] by its checksum.
func Seal(b []byte, start int) []byte {
	return binary.LittleEndian.AppendUint32(b, Sum(b[start:]))
}

// Open checks a frame, and returns its version and a reader of its content, which refers
// to data. The error is ErrOther if the frame is another or none, else it says how it is
// damaged.
func Open(data []byte, magic byte) (version byte, content Reader, err error) {
	if len(data) == 0 || data[0] != magic {
		return 0, Reader{}, ErrOther
	}
	if len(data) < headBytes+SumBytes {
		return 0, Reader{}, fmt.Errorf("cut short at %d bytes", len(data))
	}
	body, sum := data[:len(data)-SumBytes], binary.LittleEndian.Uint32(data[len(data)-SumBytes:])
	if got := Sum(body); got != sum {
		return 0, Reader{}, fmt.Errorf("checksum %08x, want %08x", got, sum)
	}
	return body[1], Reader{rest: body[headBytes:]}, nil
}
