package window

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weir-counter/weir/internal/wire"
)

// The encoding of a window, version 1. Numbers are unsigned varints (encoding/binary) unless said otherwise.
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

// AppendBinary appends the encoding to b. It implements encoding.BinaryAppender and never returns an error.
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

// ErrForeign is wrapped by the error for bytes that are not a window, or one
// of a version that this package does not know.
var ErrForeign = errors.New("not an encoded window")

// ErrDamaged is wrapped by the error for an encoded window that was changed or cut.
var ErrDamaged = errors.New("damaged window")

// UnmarshalBinary replaces the window by the decoded one. On an error, which wraps ErrForeign or ErrDamaged, the window
// stays as it was. It implements encoding.BinaryUnmarshaler and keeps no reference to data.
func (w *Window) UnmarshalBinary(data []byte) error {
	version, content, err := wire.Open(data, encodingMagic)
	switch {
	case errors.Is(err, wire.ErrOther):
		return fmt.Errorf("window: %w: it does not start with %q", ErrForeign, byte(encodingMagic))
	case err != nil:
		return damaged("%w", err)
	case version != encodingVersion:
		return fmt.Errorf("window: %w: version %d, this build reads version %d", ErrForeign, version, encodingVersion)
	}
	d := decoder{Reader: content}
	decoded := d.window()
	if d.err == nil && d.Len() > 0 {
		d.fail("%d bytes too many", d.Len())
	}
	if d.err != nil {
		return d.err
	}
	*w = decoded
	return nil
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("window: %w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// decoder reads until the first error, and keeps it.
type decoder struct {
	wire.Reader
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = damaged(format, args...)
	}
	d.Fail()
}

// number reads a number of at most limit in its shortest form.
func (d *decoder) number(what string, limit uint64) uint64 {
	v := d.Shortest(limit)
	if d.Failed() {
		d.fail("%s is cut, above %d or not in its shortest form", what, limit)
	}
	return v
}

func (d *decoder) window() Window {
	form := d.Byte()
	w := Window{head: d.number("retention", MaxSeconds)}
	if form == formEmpty {
		return w
	}
	w.setNewest(int64(d.number("newest second", MaxTime)))
	switch {
	case d.err != nil:
	case form == formPairs:
		w.keep(d.pairs(w.newest()))
	case form == formPyramid:
		w.dense = d.pyramid(w.newest(), w.Retention())
	default:
		d.fail("form %d", form)
	}
	return w
}

// pairs takes the whole rest, walks it with every step checked, and compares it with its own canonical form.
func (d *decoder) pairs(newest int64) pairs {
	p := pairs(d.Rest())
	if len(p) == 0 || len(p) > maxPairBytes {
		d.fail("%d bytes of pairs", len(p))
		return nil
	}
	for end, second := len(p), newest; ; {
		if !p.whole(end) {
			d.fail("a pair is cut")
			return nil
		}
		it := p.below(end)
		if second -= it.gap; second < 0 {
			d.fail("a pair before 1970")
			return nil
		}
		if end = it.start; it.gap != 0 {
			continue
		}
		if end > 0 && !p.wholeVarint(&end) || end != 0 {
			d.fail("bytes below the oldest pair")
			return nil
		}
		break
	}
	packed := packPairs(p.list(newest))
	if !slices.Equal(packed, p) {
		d.fail("pairs not in their canonical form")
		return nil
	}
	d.Bytes(len(p))
	return packed
}

// whole reports whether the item that ends at byte end lies within p.
func (p pairs) whole(end int) bool {
	if end == 0 {
		return false
	}
	many := p[end-1]&1 != 0
	return p.wholeVarint(&end) && (!many || p.wholeVarint(&end))
}

// wholeVarint moves end below the number that ends there, if it lies within p.
func (p pairs) wholeVarint(end *int) bool {
	for i := range min(maxVarint, *end) {
		if p[*end-1-i] < 0x80 {
			*end -= i + 1
			return true
		}
	}
	return false
}

func (d *decoder) pyramid(newest, retention int64) *pyramid {
	p := newPyramid(retention, d.number("older hits", math.MaxUint64))
	for range d.number("number of levels", uint64(p.top)) {
		p.grow()
	}
	last, zeros, afterRun := uint64(0), uint64(0), false
	p.each(newest, func(level, place int) bool {
		switch {
		case zeros > 0:
			zeros--
		default:
			diff := d.number("reading", math.MaxUint64-last)
			last += diff
			if diff == 0 && afterRun {
				d.fail("two runs of equal readings in a row")
			} else if diff == 0 {
				zeros = d.number("run of equal readings", uint64(p.readings.len()))
			}
			afterRun = diff == 0
		}
		p.readings.set(level, place, last)
		return d.err == nil
	})
	top := p.levels() - 1
	_, high := span(top, newest)
	switch {
	case d.err != nil:
	case zeros > 0:
		d.fail("a run of equal readings beyond the last")
	case last == 0:
		d.fail("a pyramid without hits")
	case top > 0 && p.value(top, high) == 0:
		d.fail("a level without hits")
	}
	return p
}
