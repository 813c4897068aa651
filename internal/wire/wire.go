// Package wire is how Weir reads and writes bytes: numbers as varints, texts with their
// length before them, and frames with a checksum. What is stored (windows, states of
// partitions, flushes, snapshots) and what nodes send each other is made of these.
//
// Bytes may be truncated, damaged or made up. A Reader never panics, and takes no more memory than the bytes that it reads.
//
// It imports the standard library alone, so that the library's packages may use it.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// AppendText appends a text as Text reads it.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendBlock appends bytes as Block reads them.
func AppendBlock(b, block []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(block))), block...)
}

// AppendBool appends a byte as Bool reads it.
func AppendBool(b []byte, is bool) []byte {
	if is {
		return append(b, 1)
	}
	return append(b, 0)
}

// UvarintAt reads an unsigned number at a place in b, most often one below 128. It returns the place after it, beyond the end of b if there
// is no number.
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

// A frame is a byte with its kind, a byte with the version of its content, the content, and the CRC-32C of all before, little endian.

// SumBytes is the length of a checksum.
const SumBytes = 4

// headBytes are the byte that says what a frame is, and its version.
const headBytes = 2

// ErrOther is the error for bytes that do not begin as the frame that was asked for.
var ErrOther = errors.New("it does not begin as one")

// ErrVersion is wrapped by the error for sound bytes in a version that this build does not read.
var ErrVersion = errors.New("another build of Weir wrote it, and nothing was changed: run that build, or use an empty data directory or a backup that this build wrote (weir restore)")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the checksum of b, CRC-32C.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// AddSum returns the checksum of the bytes that sum covers, followed by b.
func AddSum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// Seal appends the checksum of the frame that begins at b[start].
func Seal(b []byte, start int) []byte {
	return binary.LittleEndian.AppendUint32(b, Sum(b[start:]))
}

// Open checks a frame, and returns its version and a reader of its content, which refers to data. The error is ErrOther if
// data does not begin with magic, else it says how the frame is damaged.
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
