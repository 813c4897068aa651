package limit

import (
	"encoding/binary"
	"errors"
)

// The bytes of a state, all numbers as unsigned varints:
//
//	Window    entries, then for each, the oldest first: twice the step from the one before, and 1 more
//	          if it counts more than one admission, and then how many
//	Fixed     interval, used
//	GCRA      newest time seen, from there to the theoretical arrival time
//
// A past comes before these bytes. It begins with 2^63, its reach, when the reach was last in use, the next shorter
// reach or 0, and the number of times. For each time, the oldest first, follow the step from the one before and the
// count. No state begins with 2^63 itself.
//
// Times, steps and reaches are in ns.

// pastMark begins a past.
const pastMark = 1 << 63

var (
	errShort = errors.New("limit: state: ends early or has a number of more than 64 bits: forget it")
	errState = errors.New("limit: state: is not one of this limit: decode it with the plan it was written with, or forget it")
)

// AppendState appends the bytes of s for DecodeState. Fixed and GCRA take at most 20 bytes. A Window takes at most 19
// for each time that it remembers; 4 to 6 are common. A past takes up to 310 more (see Adopt). The bytes contain
// neither the plan nor their own version: the caller keeps both.
func (p *Plan) AppendState(b []byte, s *State) []byte {
	if s.past != nil {
		b = s.past.append(b)
	}
	switch p.form {
	case log:
		return s.logAppend(p, b)
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
	matters, past := d.past(p)
	switch p.form {
	case log:
		s.logDecode(p, &d)
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
		s.pastBegin(matters, past)
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

// count is a number of admissions, 1 to most.
func (d *decoder) count(most uint64) uint64 {
	n := d.number(most)
	if n == 0 && d.err == nil {
		d.err = errState
	}
	return n
}

// past reads the past, if there is one. It reaches at least as far
// back as p's interval, or would know less than the form.
func (d *decoder) past(p *Plan) (r reach, list []admissions) {
	if mark, size := binary.Uvarint(d.b); size <= 0 || mark != pastMark {
		return reach{}, nil
	}
	d.number(pastMark)
	r = reach{interval: int64(d.number(uint64(maxInterval))), used: int64(d.number(uint64(maxTime)))}
	r.next = int64(d.number(uint64(r.interval)))
	if r.interval < p.interval && d.err == nil {
		d.err = errState
	}
	var at int64
	for range d.number(pastPlaces) {
		at += int64(d.number(uint64(maxTime - at)))
		list = append(list, admissions{at, d.count(MaxBurst)})
	}
	return r, list
}

func (b *past) append(to []byte) []byte {
	list := b.list()
	for _, v := range []uint64{pastMark, uint64(b.interval), uint64(b.used), uint64(b.next), uint64(len(list))} {
		to = binary.AppendUvarint(to, v)
	}
	var last int64
	for _, a := range list {
		to = binary.AppendUvarint(binary.AppendUvarint(to, uint64(a.at-last)), a.n)
		last = a.at
	}
	return to
}

func (s *State) logAppend(p *Plan, b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.logEntries()))
	var last int64
	for i := range s.logEntries() {
		at, n := s.logEntry(p, i)
		at = p.logTime(at)
		step := uint64(at-last) << 1
		if last = at; n == 1 {
			b = binary.AppendUvarint(b, step)
		} else {
			b = binary.AppendUvarint(binary.AppendUvarint(b, step|1), n)
		}
	}
	return b
}

func (s *State) logDecode(p *Plan, d *decoder) {
	var list []admissions
	var at int64
	for range d.number(uint64(p.most)) {
		step, n := d.number(uint64(maxTime-at)<<1|1), uint64(1)
		if step&1 == 1 {
			n = d.count(p.counts)
		}
		if d.err != nil {
			return
		}
		at += int64(step >> 1)
		list = append(list, admissions{at, n})
	}
	s.logFill(p, list)
}
