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
