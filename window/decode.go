package window

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
)

// ErrForeign is wrapped by the error for bytes that are not a window, or one
// of a version that this package does not know.
var ErrForeign = errors.New("not an encoded window")

// ErrDamaged is wrapped by the error for an encoded window that was changed or
// cut.
var ErrDamaged = errors.New("damaged window")

// UnmarshalBinary replaces the window by the decoded one. On an error, which
// wraps ErrForeign or ErrDamaged, the window stays as it was. It implements
// encoding.BinaryUnmarshaler and keeps no reference to data.
func (w *Window) UnmarshalBinary(data []byte) error {
	if len(data) < 1 || data[0] != encodingMagic {
		return fmt.Errorf("window: %w: it does not start with %q", ErrForeign, byte(encodingMagic))
	}
	if len(data) < 3+1+checksumBytes {
		return damaged("cut short at %d bytes", len(data))
	}
	if data[1] != encodingVersion {
		return fmt.Errorf("window: %w: version %d, this build reads version %d", ErrForeign, data[1], encodingVersion)
	}
	body, sum := data[:len(data)-checksumBytes], binary.LittleEndian.Uint32(data[len(data)-checksumBytes:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return damaged("checksum %08x, want %08x", got, sum)
	}
	d := decoder{rest: body[3:]}
	decoded := d.window(body[2])
	if d.err == nil && len(d.rest) > 0 {
		d.fail("%d bytes too many", len(d.rest))
	}
	if d.err != nil {
		return d.err
	}
	*w = decoded
	return nil
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("window: %w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// decoder takes numbers off rest until the first error.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = damaged(format, args...)
	}
	d.rest = nil
}

// uvarint takes a number of at most limit in its shortest form.
func (d *decoder) uvarint(what string, limit uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	switch {
	case d.err != nil:
		return 0
	case n <= 0 || n > 1 && d.rest[n-1] == 0:
		d.fail("%s is not a number", what)
		return 0
	case v > limit:
		d.fail("%s of %d, at most %d", what, v, limit)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) window(form byte) Window {
	w := Window{head: d.uvarint("retention", MaxSeconds)}
	if form == formEmpty {
		return w
	}
	w.setNewest(int64(d.uvarint("newest second", MaxTime)))
	switch {
	case d.err != nil:
	case form == formPairs:
		w.pairs = d.pairs(w.newest())
	case form == formPyramid:
		w.dense = d.pyramid(w.newest(), w.Retention())
	default:
		d.fail("form %d", form)
	}
	return w
}

// pairs takes the whole rest, walks it with every step checked, and compares
// it with its own canonical form.
func (d *decoder) pairs(newest int64) pairs {
	p := pairs(d.rest)
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
	d.rest = nil
	return packed
}

// whole tells whether the item that ends at byte end lies within p.
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
	p := newPyramid(retention, d.uvarint("older hits", math.MaxUint64))
	for range d.uvarint("number of levels", uint64(p.top)) {
		p.grow()
	}
	last, zeros, afterRun := uint64(0), uint64(0), false
	p.each(newest, func(reading *uint64) bool {
		switch {
		case zeros > 0:
			zeros--
		default:
			diff := d.uvarint("reading", math.MaxUint64-last)
			last += diff
			if diff == 0 && afterRun {
				d.fail("two runs of equal readings in a row")
			} else if diff == 0 {
				zeros = d.uvarint("run of equal readings", uint64(len(p.readings)))
			}
			afterRun = diff == 0
		}
		*reading = last
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
