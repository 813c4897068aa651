package limit

// Shift moves all that s knows by so many ns, to another clock: one that shows by more
// at the same moment. Window up to a burst of 16 and GCRA are exact. What is counted in
// sub-slots, or in Fixed's intervals, counts as up to one of these later, never as
// earlier: it never makes later decisions more generous. So does what would lie before
// the epoch of the clock.
//
// Times may be ahead of the caller's clock then: p.Adopt(s, p, now) repairs that.
func (p *Plan) Shift(s *State, by int64) {
	if by == 0 {
		return
	}
	var room [subSlots + 1]admissions
	var past []admissions
	var matters reach
	if s.HasPast() {
		past, matters = s.pastList(room[:0]), s.pastReach()
		for i := range past {
			past[i].at = clampShift(past[i].at, by)
		}
		matters.used = clampShift(matters.used, by)
		s.pastForget(p)
	}
	switch p.form {
	case ring:
		if s.used > 0 {
			s.at = clampShift(s.at, by)
			for i := range min(len(s.cells), p.ownCells()) {
				s.cells[i] = clampShift(s.cells[i], by)
			}
		}
	case slots:
		s.slotsShift(ceilDiv(by, p.width))
	case fixed:
		if p.calendar != nil {
			break // its periods are those of the time of day
		}
		s.at = max(0, s.at+ceilDiv(by, p.interval))
	case gcra:
		newest := clampShift(int64(s.used), by)
		s.at += newest - int64(s.used)
		s.used = uint64(newest)
	}
	if len(past) > 0 {
		s.pastBegin(p, matters, past)
	}
}

// slotsShift renumbers the sub-slots. What would be before the epoch is as of it.
func (s *State) slotsShift(by int64) {
	by = max(by, -s.at)
	cells := s.slotsOpen()
	kept := 0
	for _, cell := range cells {
		moved := slotCell(max(s.slotOf(cell)+by, 0), uint64(cell>>slotBits))
		if kept > 0 && (cells[kept-1]^moved)&(1<<slotBits-1) == 0 {
			cells[kept-1] += moved &^ (1<<slotBits - 1)
			continue
		}
		cells[kept] = moved
		kept++
	}
	s.cells = cells[:kept]
	s.at += by
}

func clampShift(at, by int64) int64 {
	return min(max(at+min(max(by, -maxTime), int64(maxInterval)), 0), maxTime)
}

func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
