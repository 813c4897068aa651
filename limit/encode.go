package limit

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
)

// The bytes of a state, all numbers as unsigned varints:
//
//	Window, burst up to 16   count, then if not 0: the oldest time, and for each later one the step to it
//	Window, larger bursts    newest sub-slot, which sub-slots count (bit k: the one k before the newest),
//	                         then the count of each, the newest first
//	Fixed                    interval, used
//	GCRA                     newest time seen, from there to the theoretical arrival time
//
// A past comes before that: 2^63, its reach, when that was last in use, the next shorter
// one or 0, how many times, for each, the oldest first, the step from the one before and
// the count. No state begins with 2^63 itself.
//
// Times, steps and reaches are in ns.

// pastMark begins a past.
const pastMark = 1 << 63

var (
	errShort = errors.New("limit: state: ends early or has a number of more than 64 bits: forget it")
	errState = errors.New("limit: state: is not one of this limit: decode it with the plan it was written with, or forget it")
)

// AppendState appends the bytes of s for DecodeState, at most 145, or 455 with a past:
// see Adopt. They say nothing of the plan nor of their own version: that is the
// caller's to keep.
func (p *Plan) AppendState(b []byte, s *State) []byte {
	if s.HasPast() {
		b = s.pastAppend(b)
	}
	switch p.form {
	case ring:
		return s.ringAppend(p, b)
	case slots:
		return s.slotsAppend(b)
	case fixed:
		return binary.AppendUvarint(binary.AppendUvarint(b, uint64(s.at)), s.used)
	default:
		return binary.AppendUvarint(binary.AppendUvarint(b, s.used), uint64(s.at)-s.used)
	}
}

// DecodeState makes s what AppendState of an equal plan wrote at the start of b, and
// returns the rest of b. Bytes that no state of this plan has are an error, and s is
// then the zero State. It allocates at most what Size tells. The times may be ahead
// of the caller's clock: p.Adopt(s, p, now) repairs that.
func (p *Plan) DecodeState(s *State, b []byte) (rest []byte, err error) {
	*s = State{}
	d := decoder{b: b}
	var room [subSlots + 1]admissions
	matters, past := d.past(p, room[:0])
	switch p.form {
	case ring:
		s.ringDecode(p, &d)
	case slots:
		s.slotsDecode(p, &d)
	case fixed:
		most := maxTime / p.interval
		if p.calendar != nil {
			most = p.calendar.number(dateOf(maxTime, p.calendar.zone))
		}
		s.at = int64(d.number(uint64(most)))
		s.used = d.number(MaxBurst)
	case gcra:
		s.used = d.number(uint64(maxTime))
		s.at = int64(s.used + d.number(uint64(p.full)))
	}
	if d.err != nil {
		*s = State{}
		return b, d.err
	}
	if len(past) > 0 {
		s.pastBegin(p, matters, past)
	}
	return d.b, nil
}

// decoder reads numbers until the first error; from then on they are all 0.
type decoder struct {
	b   []byte
	err error
}

// number is the next one, of 0 to most.
func (d *decoder) number(most uint64) uint64 {
	if d.err != nil {
		return 0
	}
	n, size := binary.Uvarint(d.b)
	switch {
	case size <= 0:
		d.err = errShort
		return 0
	case n > most:
		d.err = errState
		return 0
	}
	d.b = d.b[size:]
	return n
}

// count is a number of admissions, at least 1.
func (d *decoder) count() uint64 {
	n := d.number(MaxBurst)
	if n == 0 && d.err == nil {
		d.err = errState
	}
	return n
}

// past reads the past, if there is one, and appends it. It reaches at least as far
// back as p's interval, or would know less than the form.
func (d *decoder) past(p *Plan, list []admissions) (reach, []admissions) {
	if mark, size := binary.Uvarint(d.b); size <= 0 || mark != pastMark {
		return reach{}, list
	}
	d.number(pastMark)
	r := reach{interval: int64(d.number(uint64(maxInterval))), used: int64(d.number(uint64(maxTime)))}
	r.next = int64(d.number(uint64(r.interval)))
	if r.interval < p.interval && d.err == nil {
		d.err = errState
	}
	var at int64
	for range d.number(subSlots + 1) {
		at += int64(d.number(uint64(maxTime - at)))
		list = append(list, admissions{at, d.count()})
	}
	return r, list
}

func (s *State) pastAppend(b []byte) []byte {
	var room [subSlots + 1]admissions
	list, r := s.pastList(room[:0]), s.pastReach()
	for _, v := range []uint64{pastMark, uint64(r.interval), uint64(r.used), uint64(r.next), uint64(len(list))} {
		b = binary.AppendUvarint(b, v)
	}
	var last int64
	for _, a := range list {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(a.at-last)), a.n)
		last = a.at
	}
	return b
}

func (s *State) ringAppend(p *Plan, b []byte) []byte {
	count := min(s.used, p.limit.Burst)
	b = binary.AppendUvarint(b, count)
	var last int64
	for k := int(count); k >= 1; k-- {
		at, _ := s.ringTime(p, k)
		b = binary.AppendUvarint(b, uint64(at-last))
		last = at
	}
	return b
}

func (s *State) ringDecode(p *Plan, d *decoder) {
	count := d.number(p.limit.Burst)
	var at int64
	for range count {
		at += int64(d.number(uint64(maxTime - at)))
		if d.err != nil {
			return
		}
		s.ringPush(p, at)
	}
}

func (s *State) slotsAppend(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.at))
	cells := s.slotsOpen()
	var which uint64
	for _, cell := range cells {
		which |= 1 << (s.at - s.slotOf(cell))
	}
	b = binary.AppendUvarint(b, which)
	for _, cell := range slices.Backward(cells) {
		b = binary.AppendUvarint(b, uint64(cell>>slotBits))
	}
	return b
}

func (s *State) slotsDecode(p *Plan, d *decoder) {
	s.at = int64(d.number(uint64(maxTime / p.width)))
	which := d.number(1<<(min(s.at, subSlots)+1) - 1)
	s.slotsGrow(bits.OnesCount64(which))
	for ; which > 0; which &= which - 1 {
		n := d.count()
		s.cells = append(s.cells, slotCell(s.at-int64(bits.TrailingZeros64(which)), n))
		s.used += n
	}
	slices.Reverse(s.cells)
}
