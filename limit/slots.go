package limit

// The form of Window for large bursts: counts in sub-slots of width T/16, rounded
// up. An interval of length T lies within the sub-slot of its end and the 16
// before, so while those 17 have at most Burst admissions, so has it: never over.
// The price is that an admission stays in the sum for up to a sub-slot longer than
// T: a caller who always asks gets Burst in 17 sub-slots rather than in 16.
//
// State.at is the number of the newest sub-slot seen, the time over the width.
// State.used is the sum of the cells, of which sub-slot k has cells[k%17]. There
// are no cells before the first admission, and while all that is used is in the newest
// sub-slot the slice is empty, with room for them: a key in rare use needs no cells, and
// a decision of it does not wait for their memory. A cell has at most MaxBurst: together they
// may have more than the burst if a larger one was in use before.
const subSlots = 16

// slotsCell is what a sub-slot counts; there must be cells, or room for them.
func (s *State) slotsCell(slot int64) *int64 {
	if len(s.cells) == 0 {
		s.slotsOpen()
	}
	return &s.cells[uint64(slot)%(subSlots+1)]
}

// slotsOpen puts what is used into the cells. It allocates only where nothing is.
func (s *State) slotsOpen() {
	if s.cells == nil {
		s.cells = make([]int64, subSlots+1)
		return
	}
	s.cells = s.cells[:subSlots+1]
	clear(s.cells)
	s.cells[uint64(s.at)%(subSlots+1)] = int64(s.used)
}

// slotsAdvance empties the sub-slots that the time has passed. It divides only at
// a sub-slot's end.
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
	if len(s.cells) == 0 {
		s.slotsOpen()
	}
	for left := min(to-s.at, subSlots+1); left > 0 && s.used > 0; left-- {
		s.at++
		cell := s.slotsCell(s.at)
		s.used -= uint64(*cell)
		*cell = 0
	}
	s.at = to
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
	switch {
	case s.cells == nil:
		s.cells = make([]int64, subSlots+1)[:0]
	case len(s.cells) > 0:
		*s.slotsCell(s.at) += int64(n)
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
	cell := s.slotsCell(slot)
	n = min(n, MaxBurst-uint64(*cell))
	*cell += int64(n)
	s.used += n
}

// slotsWait: the sub-slots leave one after the other, the oldest first.
func (s *State) slotsWait(p *Plan, now int64, n uint64) int64 {
	left := s.used
	if left+n <= p.limit.Burst {
		return 0
	}
	slot := max(0, s.at-subSlots)
	for ; slot < s.at; slot++ {
		if left -= uint64(*s.slotsCell(slot)); left+n <= p.limit.Burst {
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
	for len(s.cells) > 0 && *s.slotsCell(slot) == 0 {
		slot--
	}
	return (slot+subSlots+1)*p.width - now
}

func (s *State) slotsIdle(p *Plan, now int64) bool {
	if s.used == 0 {
		return now >= s.at*p.width
	}
	return now >= (s.at+subSlots+1)*p.width
}
