package limit

// The form of Window for large bursts: counts in sub-slots of width T/16, rounded
// up. An interval of length T lies within the sub-slot of its end and the 16
// before, so while those 17 have at most Burst admissions, so has it: never over.
// The price is that an admission stays in the sum for up to a sub-slot longer than
// T: a caller who always asks gets Burst in 17 sub-slots rather than in 16.
const subSlots = 16

// slotsAdvance empties the sub-slots that the time has passed.
func (s *State) slotsAdvance(p *Plan, now int64) {
	if s.cells == nil {
		return
	}
	to := now / p.width
	for range min(to-s.at, subSlots+1) {
		s.at++
		cell := &s.cells[s.at%(subSlots+1)]
		s.used -= uint64(*cell)
		*cell = 0
	}
	s.at = max(s.at, to)
}

func (s *State) slotsAdmit(p *Plan, now int64, n uint64) {
	if s.cells == nil {
		s.cells = make([]int64, subSlots+1)
		s.at = now / p.width
	}
	s.cells[s.at%(subSlots+1)] += int64(n)
	s.used += n
}

// slotsWait: the sub-slots leave one after the other, the oldest first.
func (s *State) slotsWait(p *Plan, now int64, n uint64) int64 {
	if s.cells == nil {
		return 0
	}
	left := s.used
	for slot := s.at - subSlots; slot <= s.at; slot++ {
		if left+n <= p.limit.Burst {
			break
		}
		if slot < 0 {
			continue
		}
		if left -= uint64(s.cells[slot%(subSlots+1)]); left+n <= p.limit.Burst {
			return max(0, (slot+subSlots+1)*p.width-now)
		}
	}
	return 0
}
