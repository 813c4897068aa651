package window

import (
	"encoding/binary"

	"github.com/weir-counter/weir/internal/wire"
)

// The encoding of a window, version 1. Numbers are unsigned varints
// (encoding/binary) unless said otherwise.
//
//	byte 0      'W'
//	byte 1      version, 1
//	byte 2      form: 0 empty, 1 pairs, 2 pyramid
//	            retention, seconds (0: DefaultRetention)
//	form 1, 2   newest, Unix seconds
//	form 1      the stack of pairs as in memory, to the checksum
//	form 2      older, levels above 0, then the readings from the oldest
//	            boundary to the newest as differences to the one before;
//	            a difference of 0 is followed by the number of further zeros
//	last 4      CRC-32C of all bytes before, little endian
//
// A window has one encoding only, and the decoder refuses any other.
const (
	encodingMagic   = 'W'
	encodingVersion = 1

	formEmpty   = 0
	formPairs   = 1
	formPyramid = 2
)

// AppendBinary appends the encoding to b. It implements
// encoding.BinaryAppender and never returns an error.
func (w *Window) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	b = append(b, encodingMagic, encodingVersion, w.form())
	b = binary.AppendUvarint(b, w.head&retentionMask)
	switch w.form() {
	case formPairs:
		b = binary.AppendUvarint(b, uint64(w.newest()))
		b = append(b, w.pairs()...)
	case formPyramid:
		b = binary.AppendUvarint(b, uint64(w.newest()))
		b = w.dense.append(b, w.newest())
	}
	return wire.Seal(b, start), nil
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (w *Window) MarshalBinary() ([]byte, error) { return w.AppendBinary(nil) }

func (w *Window) form() byte {
	switch {
	case w.dense != nil:
		return formPyramid
	case w.length > 0:
		return formPairs
	}
	return formEmpty
}

func (p *pyramid) append(b []byte, newest int64) []byte {
	b = binary.AppendUvarint(b, p.older)
	b = binary.AppendUvarint(b, uint64(p.levels()-1))
	last, zeros := uint64(0), uint64(0)
	flush := func() {
		if zeros > 0 {
			b = binary.AppendUvarint(append(b, 0), zeros-1)
			zeros = 0
		}
	}
	p.each(newest, func(level, place int) bool {
		reading := p.readings.get(level, place)
		if reading == last {
			zeros++
			return true
		}
		flush()
		b = binary.AppendUvarint(b, reading-last)
		last = reading
		return true
	})
	flush()
	return b
}

// each calls f with the level and the place of every reading, from the oldest boundary to the
// newest, until f returns false.
func (p *pyramid) each(newest int64, f func(level, place int) bool) {
	for level := p.levels() - 1; level >= 0; level-- {
		low, high := span(level, newest)
		for unit := low; unit <= high; unit++ {
			if !f(level, place(level, unit)) {
				return
			}
		}
	}
}
