package limit

import (
	"math/bits"
	"unsafe"
)

// The form of Window: a log of the admissions of the last T, in entries of a time and a count, the oldest first.
//
// A request at the time t fits if the admissions after t-T, and it, are at most Burst. Any interval (u-T, u] that has
// more than Burst admissions would end at one of them, which was then not admitted.
//
// Admissions at one time are one entry. Neighbors are one entry too, at the later of their times, while they have at
// most Plan.merge admissions together. Plan.merge is 1, which merges nothing, up to a burst of exactBurst; it is a
// 100th of larger bursts. Two adjacent entries therefore have more than merge admissions, and Plan.most entries have
// the whole burst. Only the entry in which T begins counts admissions that have left, merge-1 at most. A larger burst
// therefore denies a request only while less than a 100th of it is free. For requests for 1, it admits at least 99 % of
// what a log of all times admits.
//
// An entry is one word. Its high bits are the count. Its low bits are the time modulo their number, in units of the
// plan. The unit is 1 ns or, for a T that does not fit, the smallest power of two for which it does. Admissions count
// from the end of their unit, and requests are decided as of its beginning.
//
// State.at is the time of the newest entry in units, and State.used the sum of all counts.
// State.entries of the cells, a ring that begins at State.head, are entries, the newest too.
// There are none while there is one entry alone: a key in rare use needs no cells.
const (
	exactBurst = 256
	logParts   = 100
)

// logPlan is what a Plan of a Window says about its log.
type logPlan struct {
	span   int64  // T in units, rounded up
	merge  uint64 // neighbors with at most this many admissions together are one entry
	most   int    // entries that have the whole burst
	times  uint64 // the low bits of an entry that are a time
	counts uint64 // what an entry can count at most: more than twice the burst decide nothing more
	shift  uint8  // how many bits times has
	unit   uint8  // 2^unit ns
	within int64  // 2^unit - 1: what rounds up
	begins int64  // by how many units requests are decided before they count: 1, or 0 of units of 1 ns
}

// setLog prepares the log of a Window.
func (p *Plan) setLog() {
	burst := p.limit.Burst
	p.merge, p.most = 1, int(min(burst, exactBurst))
	if burst > exactBurst {
		p.merge = burst / logParts
		p.most = 2 * int((burst+p.merge)/(p.merge+1))
	}
	p.shift = uint8(63 - bits.Len64(burst))
	p.times, p.counts = 1<<p.shift-1, 1<<(64-p.shift)-1
	p.unit = uint8(max(0, bits.Len64(uint64(p.interval))-int(p.shift)+1))
	p.within, p.begins = 1<<p.unit-1, int64(min(p.unit, 1))
	p.span = p.unitAfter(p.interval)
}

// unitOf is the unit that a time is in.
func (p *Plan) unitOf(at int64) int64 { return at >> (p.unit & 63) }

// unitAfter is a time in units, rounded up.
func (p *Plan) unitAfter(at int64) int64 { return (at + p.within) >> (p.unit & 63) }

// cell is the i-th of the cells, less than State.size.
func (s *State) cell(i int) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(s.cells), 8*i))
}

// place is the cell of the i-th entry from the oldest.
func (s *State) place(i int) *uint64 {
	if i += int(s.head); i >= int(s.size) {
		i -= int(s.size)
	}
	return s.cell(i)
}

// setEntry writes the i-th entry.
func (s *State) setEntry(p *Plan, i int, at int64, n uint64) {
	*s.place(i) = n<<(p.shift&63) | uint64(at)&p.times
}

// logEntries is how many entries there are.
func (s *State) logEntries() int {
	if s.entries == 0 && s.used > 0 {
		return 1
	}
	return int(s.entries)
}

// logEntry is the i-th entry from the oldest, of logEntries.
func (s *State) logEntry(p *Plan, i int) (at int64, n uint64) {
	if s.entries == 0 {
		return s.at, s.used
	}
	entry := *s.place(i)
	return s.at - int64((uint64(s.at)-entry)&p.times), entry >> (p.shift & 63)
}

// logUsed drops the entries that have left at a time, and returns how many admissions are left.
func (s *State) logUsed(p *Plan, now int64) uint64 {
	if late := p.unitOf(now) - s.at; late >= p.span || s.entries > 0 && s.logOldest(p) >= p.span-late {
		s.logLeave(p, late)
	}
	return s.used
}

// logOldest is by how much the oldest entry is before the newest.
func (s *State) logOldest(p *Plan) int64 {
	return int64((uint64(s.at) - *s.cell(int(s.head))) & p.times)
}

// logLeave drops the entries that have left so long after the newest.
func (s *State) logLeave(p *Plan, late int64) {
	if late >= p.span {
		s.used, s.entries, s.head = 0, 0, 0
		return
	}
	for late = max(late, -p.begins); s.logOldest(p) >= p.span-late; {
		s.logDrop(p)
	}
}

// logDrop drops the oldest entry.
func (s *State) logDrop(p *Plan) {
	s.used -= *s.cell(int(s.head)) >> (p.shift & 63)
	s.entries--
	if s.head++; s.head == s.size {
		s.head = 0
	}
}

// logAdmit adds n admissions at a time, or at the newest if that is later. Admissions that have left by then were dropped before.
func (s *State) logAdmit(p *Plan, now int64, n uint64) {
	s.logAdd(p, p.unitAfter(now), n)
}

// logAdd adds n admissions at a time in units, or at the newest if that is later.
func (s *State) logAdd(p *Plan, at int64, n uint64) {
	n = min(n, p.counts)
	if s.entries == 0 {
		if s.used > 0 || s.size > 16 {
			s.logAddSecond(p, at, n)
			return
		}
		s.at, s.used = at, n
		return
	}
	at = max(at, s.at)
	if at == s.at || p.merge > 1 {
		last := s.place(int(s.entries) - 1)
		newest := *last >> (p.shift & 63)
		if at == s.at || newest+n <= p.merge {
			n = min(n, p.counts-newest)
			*last = (newest+n)<<(p.shift&63) | uint64(at)&p.times
			s.at, s.used = at, s.used+n
			return
		}
	}
	if few := s.size / 4 &^ 3; s.entries-few >= s.size-few { // all cells are in use, or few of many
		s.logMakePlace(p)
	}
	s.setEntry(p, int(s.entries), at, n)
	s.at, s.used = at, s.used+n
	s.entries++
}

// logAddSecond is logAdd where there is one entry at most.
func (s *State) logAddSecond(p *Plan, at int64, n uint64) {
	switch {
	case s.used == 0: // and more cells than a key in rare use needs
		s.cells, s.size = nil, 0
		s.at, s.used = at, n
	case at <= s.at || s.used+n <= p.merge:
		s.at, s.used = max(at, s.at), min(s.used+n, p.counts)
	default:
		s.logOpen(p)
		s.logAdd(p, at, n)
	}
}

// logOpen has an entry that is alone in a cell.
func (s *State) logOpen(p *Plan) {
	if s.size == 0 {
		s.logResize(min(4, p.most))
	}
	s.setEntry(p, 0, s.at, s.used)
	s.entries = 1
}

// logMakePlace has a place for one more entry. Where there may be no more, the oldest
// decides nothing beyond what the others do.
func (s *State) logMakePlace(p *Plan) {
	switch {
	case int(s.entries) == p.most:
		s.logDrop(p)
	case s.entries == s.size:
		s.logResize(min(p.most, int(s.size)+max(4, int(s.size)/2)))
	case s.entries < s.size/4: // gives back the memory of a burst
		s.logResize(max(4, 2*int(s.entries)))
	}
}

func (s *State) logResize(cells int) { s.logMove(make([]int64, cells)) }

// logMove moves the entries to other cells.
func (s *State) logMove(to []int64) {
	for i := range int(s.entries) {
		to[i] = int64(*s.place(i))
	}
	s.cells, s.size, s.head = unsafe.SliceData(to), uint16(len(to)), 0
}

// logCharge puts admissions where they belong among the entries.
func (s *State) logCharge(p *Plan, at int64, n uint64) {
	began := at
	at = p.unitAfter(at)
	if s.used == 0 || at >= s.at {
		s.logUsed(p, began)
		s.logAdd(p, at, n)
		return
	}
	if s.at-at >= p.span {
		return
	}
	if s.entries == 0 {
		s.logOpen(p)
	}
	i := int(s.entries) - 1
	next, later := s.logEntry(p, i)
	before, earlier := int64(-1), uint64(0)
	for ; i > 0; i-- {
		if before, earlier = s.logEntry(p, i-1); before <= at {
			break
		}
		next, later, before = before, earlier, -1
	}
	n = min(n, p.counts)
	switch {
	case before == at:
		n = min(n, p.counts-earlier)
		s.setEntry(p, i-1, at, earlier+n)
	case later+n <= p.merge:
		s.setEntry(p, i, next, later+n)
	case before >= 0 && earlier+n <= p.merge:
		s.setEntry(p, i-1, at, earlier+n)
	default:
		if int(s.entries) == p.most {
			if i == 0 {
				return // it is older than all that decide
			}
			i-- // the oldest goes
		}
		s.logMakePlace(p)
		for k := int(s.entries); k > i; k-- {
			*s.place(k) = *s.place(k - 1)
		}
		s.setEntry(p, i, at, n)
		s.entries++
	}
	s.used += n
}

// logWait: the entries leave one after the other, the oldest first.
func (s *State) logWait(p *Plan, now int64, n uint64) int64 {
	left, at := s.used, s.at
	for i := 0; left+n > p.limit.Burst; i++ {
		var has uint64
		at, has = s.logEntry(p, i)
		left -= has
	}
	return max(0, (at+p.span)<<(p.unit&63)-now)
}

// logReset: the newest entry leaves last.
func (s *State) logReset(p *Plan, now int64) int64 {
	if s.used == 0 {
		return 0
	}
	return max(0, (s.at+p.span)<<(p.unit&63)-now)
}

func (s *State) logIdle(p *Plan, now int64) bool {
	return s.used == 0 || p.unitOf(now)-s.at >= p.span
}

// logTime is a time in units in ns.
func (p *Plan) logTime(at int64) int64 { return min(at<<p.unit, maxTime) }

// logList appends the entries, with their times in ns.
func (s *State) logList(p *Plan, list []admissions) []admissions {
	for i := range s.logEntries() {
		at, n := s.logEntry(p, i)
		list = append(list, admissions{p.logTime(at), n})
	}
	return list
}

// logFill makes the state's log what a list has, the oldest first.
func (s *State) logFill(p *Plan, list []admissions) {
	s.at, s.used, s.entries, s.head = 0, 0, 0, 0
	for _, a := range list {
		if a.n > 0 {
			s.logUsed(p, max(a.at, p.newest(s))-p.within)
			s.logAdd(p, p.unitAfter(a.at), a.n)
		}
	}
}
