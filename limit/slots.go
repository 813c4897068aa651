package limit

import "slices"

// The form of Window for large bursts: counts in sub-slots of width T/16, rounded
// up. An interval of length T lies within the sub-slot of its end and the 16
// before, so while those 17 have at most Burst admissions, so has it: never over.
// The price is that an admission stays in the sum for up to a sub-slot longer than
// T: a caller who always asks gets Burst in 17 sub-slots rather than in 16.
//
// State.at is the number of the newest sub-slot seen, the time over the width.
// State.used is the sum of all that count. Each that does is one of the cells, the oldest
// first: its count and its number (slotsCell). While all that is used is in the newest
// sub-slot there are none, but room for one: a key in rare use needs no cells, and a
// decision of it does not wait for their memory. With a past, the cells end before its 17
// first at one that is 0. A sub-slot counts at most MaxBurst: together they may have more
// than the burst if a larger one was in use before.
const subSlots = 16

// slotBits of a cell are those of its sub-slot's number: all that count are within 17.
const slotBits = 5

// slotCell is the cell of a sub-slot that counts n.
func slotCell(slot int64, n uint64) int64 { return int64(n)<<slotBits | slot&(1<<slotBits-1) }

// slotOf is the number of a cell's sub-slot.
func (s *State) slotOf(cell int64) int64 { return s.at - (s.at-cell)&(1<<slotBits-1) }

// slotsCells are those that count.
func (s *State) slotsCells() []int64 {
	cells := s.cells
	if s.HasPast() {
		cells = cells[:subSlots+1]
		for i, cell := range cells {
			if cell == 0 {
				return cells[:i]
			}
		}
	}
	return cells
}

// slotsPut puts a cell in at a place, where there is room or the state grows.
func (s *State) slotsPut(place int, cell int64) {
	if s.HasPast() {
		copy(s.cells[place+1:subSlots+1], s.cells[place:])
		s.cells[place] = cell
		return
	}
	s.slotsGrow(len(s.cells) + 1)
	s.cells = slices.Insert(s.cells, place, cell)
}

// slotsGrow makes room for so many cells, in steps.
func (s *State) slotsGrow(cells int) {
	if cap(s.cells) < cells {
		s.cells = append(make([]int64, 0, min(subSlots+1, max(3, 2*cap(s.cells)))), s.cells...)
	}
}

// slotsDrop takes the first cells out.
func (s *State) slotsDrop(cells int) {
	have := s.slotsCells()
	left := copy(have, have[cells:])
	clear(have[left:])
	if !s.HasPast() {
		s.cells = have[:left]
	}
}

// slotsAdvance empties the sub-slots that the time has passed. It divides only at
// a sub-slot's end. It allocates nothing.
func (s *State) slotsAdvance(p *Plan, now int64) {
	if now >= (s.at+1)*p.width {
		s.slotsPass(now / p.width)
	}
}

func (s *State) slotsPass(to int64) {
	if (s.used == 0 || to-s.at > subSlots) && !s.HasPast() { // all leave
		s.at, s.used, s.cells = to, 0, s.cells[:0]
		return
	}
	cells := s.slotsOpen()
	gone := 0
	for gone < len(cells) && s.slotOf(cells[gone]) < to-subSlots {
		s.used -= uint64(cells[gone] >> slotBits)
		gone++
	}
	if gone > 0 {
		s.slotsDrop(gone)
	}
	s.at = to
}

// slotsOpen has all that is used in cells, and returns them.
func (s *State) slotsOpen() []int64 {
	cells := s.slotsCells()
	if len(cells) == 0 && s.used > 0 {
		s.slotsPut(0, slotCell(s.at, s.used))
		cells = s.slotsCells()
	}
	return cells
}

func (s *State) slotsAllow(p *Plan, now int64, n uint64) bool {
	s.slotsAdvance(p, now)
	if s.used+n > p.limit.Burst {
		return false
	}
	s.slotsAdmit(n)
	return true
}

// slotsAdmit counts n in the newest sub-slot.
func (s *State) slotsAdmit(n uint64) {
	cells := s.slotsCells()
	switch last := len(cells) - 1; {
	case last < 0 && !s.HasPast():
		s.slotsGrow(1)
	case last >= 0 && s.slotOf(cells[last]) == s.at:
		cells[last] += int64(n) << slotBits
	default:
		s.slotsPut(last+1, slotCell(s.at, n))
	}
	s.used += n
}

// slotsCharge counts n in the sub-slot of their time, if that is one of the 17.
func (s *State) slotsCharge(p *Plan, at int64, n uint64) {
	s.slotsAdvance(p, at)
	slot := at / p.width
	if slot < s.at-subSlots {
		return
	}
	cells := s.slotsOpen()
	place := len(cells)
	for place > 0 && s.slotOf(cells[place-1]) > slot {
		place--
	}
	if place > 0 && s.slotOf(cells[place-1]) == slot {
		n = min(n, MaxBurst-uint64(cells[place-1]>>slotBits))
		cells[place-1] += int64(n) << slotBits
	} else {
		s.slotsPut(place, slotCell(slot, n))
	}
	s.used += n
}

// slotsWait: the sub-slots leave one after the other, the oldest first.
func (s *State) slotsWait(p *Plan, now int64, n uint64) int64 {
	left, slot := s.used, s.at
	if left+n <= p.limit.Burst {
		return 0
	}
	for _, cell := range s.slotsCells() {
		slot = s.slotOf(cell)
		if left -= uint64(cell >> slotBits); left+n <= p.limit.Burst {
			break
		}
	}
	return (slot+subSlots+1)*p.width - now
}

// slotsReset: the newest sub-slot in use leaves last.
func (s *State) slotsReset(p *Plan, now int64) int64 {
	if s.used == 0 {
		return 0
	}
	slot := s.at
	if cells := s.slotsCells(); len(cells) > 0 {
		slot = s.slotOf(cells[len(cells)-1])
	}
	return (slot+subSlots+1)*p.width - now
}

func (s *State) slotsIdle(p *Plan, now int64) bool {
	if s.used == 0 {
		return now >= s.at*p.width
	}
	return now >= (s.at+subSlots+1)*p.width
}

// The exact form of Window: the times of the last Burst admissions.
//
// A request at the time t fits if the admissions after t-T, and it, are at most
// Burst. Any interval (u-T, u] that has more than Burst admissions would end at
// one of them, which was then not admitted.
//
// State.at is the newest admission, and cells are a ring of the up to Burst-1
// before it: a burst of 1 has no cells. State.used is 0 without admissions, then
// the number of them; when all Burst are there it goes on counting to 2*Burst-2 and
// back to Burst, and so keeps the place in the ring that is written next. The times
// never run back from one admission to the next.

// ringMost is the largest burst that is kept exactly: 120 bytes of times. Larger
// ones would make each verdict look at more.
const ringMost = 16

// ringOlder is how many times there are in cells, and where the next one goes.
func (s *State) ringOlder(p *Plan) (count, next int) {
	count, most := int(s.used)-1, int(p.limit.Burst)-1
	if count >= most {
		return most, count - most
	}
	return count, count
}

// ringTime is the time of the k-th newest admission, k from 1; ok is false if
// there were fewer.
func (s *State) ringTime(p *Plan, k int) (at int64, ok bool) {
	if uint64(k) > s.used {
		return 0, false
	}
	if k == 1 {
		return s.at, true
	}
	_, next := s.ringOlder(p)
	place := next - (k - 1)
	if place < 0 {
		place += int(p.limit.Burst) - 1
	}
	return s.cells[place], true
}

func (s *State) ringAllow(p *Plan, now int64, n uint64) bool {
	now = max(now, s.at)
	if at, ok := s.ringTime(p, int(p.limit.Burst-n)+1); ok && now-at < p.interval {
		return false
	}
	s.ringAdmit(p, now, n)
	return true
}

// ringAdmit remembers n admissions, at most Burst, at a time not before the newest.
func (s *State) ringAdmit(p *Plan, now int64, n uint64) {
	for range n {
		s.ringPush(p, now)
	}
}

func (s *State) ringPush(p *Plan, now int64) {
	if s.used == 0 || now-s.at >= p.interval {
		s.at, s.used = now, 1 // all earlier ones have left: a key in rare use needs no cells
		return
	}
	burst := p.limit.Burst
	if burst > 1 {
		_, next := s.ringOlder(p)
		if next == len(s.cells) {
			s.ringGrow(int(burst) - 1)
		}
		s.cells[next] = s.at
		if s.used++; s.used == 2*burst-1 {
			s.used = burst
		}
	}
	s.at = now
}

// ringGrow makes room for more: at once for a burst of up to 4, in steps beyond.
func (s *State) ringGrow(most int) {
	cells := make([]int64, min(most, max(3, 2*len(s.cells))))
	copy(cells, s.cells)
	s.cells = cells
}

func (s *State) ringUsed(p *Plan, now int64) (used uint64) {
	if s.used == 0 {
		return 0
	}
	left := max(now, s.at) - p.interval // at this time and before: no longer counted
	if s.at <= left {
		return 0
	}
	used = 1
	count, _ := s.ringOlder(p)
	for _, at := range s.cells[:count] { // in any order
		if at > left {
			used++
		}
	}
	return used
}

// ringCharge puts the admissions where they belong among the times, and so forgets
// the oldest: what is before the newest Burst times decides nothing any more.
func (s *State) ringCharge(p *Plan, at int64, n uint64) {
	if s.used == 0 || at >= s.at {
		s.ringAdmit(p, at, n)
		return
	}
	if s.at-at >= p.interval {
		return
	}
	var room [2 * ringMost]int64
	times := s.ringTimes(p, room[:0])
	for range n {
		times = append(times, at)
	}
	slices.Sort(times)
	s.used = 0
	for _, t := range times {
		s.ringPush(p, t)
	}
}

// ringTimes appends the times that the state remembers, in any order.
func (s *State) ringTimes(p *Plan, times []int64) []int64 {
	if s.used == 0 {
		return times
	}
	count, _ := s.ringOlder(p)
	return append(append(times, s.at), s.cells[:count]...)
}

// ringWait: n fit once the admission that is Burst-n+1 back has left.
func (s *State) ringWait(p *Plan, now int64, n uint64) int64 {
	at, ok := s.ringTime(p, int(p.limit.Burst-n)+1)
	if !ok || max(now, s.at)-at >= p.interval {
		return 0
	}
	return at + p.interval - now
}

func (s *State) ringReset(p *Plan, now int64) int64 {
	if s.used == 0 {
		return 0
	}
	return max(0, s.at+p.interval-now)
}

func (s *State) ringIdle(p *Plan, now int64) bool {
	return s.used == 0 || now-s.at >= p.interval
}
