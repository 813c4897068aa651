package limit

// Adopt makes p the state's plan in place of old, at the time now, without a
// fresh allowance: every admission that old still knows of counts under p as well,
// at the latest time at which it may have been. The new limit may therefore admit
// less than it would have from the start, but never more.
func (p *Plan) Adopt(s *State, old *Plan, now int64) {
	was := old.history(s, now)
	*s = State{}
	for _, a := range was {
		p.charge(s, a, now)
	}
}

// admissions are n of them at a time, or earlier.
type admissions struct {
	at int64
	n  uint64
}

// history is what the state knows of its admissions, the oldest first.
func (p *Plan) history(s *State, now int64) (list []admissions) {
	used := p.limit.Burst - p.free(s, now)
	switch {
	case used == 0:
	case p.limit.Algorithm != Window:
		list = append(list, admissions{now, used})
	case p.exact():
		for k := int(used); k >= 1; k-- {
			at, _ := s.ringTime(p, k)
			list = append(list, admissions{min(at, now), 1})
		}
	default:
		for slot := max(0, s.at-subSlots); slot <= s.at; slot++ {
			if n := s.cells[slot%(subSlots+1)]; n > 0 {
				list = append(list, admissions{min((slot+1)*p.width, now), uint64(n)})
			}
		}
	}
	return list
}

// charge admits without asking: what is more than the burst stays at the burst.
func (p *Plan) charge(s *State, a admissions, now int64) {
	switch {
	case p.limit.Algorithm == Window && p.exact():
		p.admit(s, a.at, min(a.n, p.limit.Burst))
	case p.limit.Algorithm == Window:
		s.slotsAdvance(p, a.at)
		p.admit(s, a.at, a.n)
	case now-a.at < p.interval: // the others have no past: as if just now
		p.admit(s, now, min(a.n, p.free(s, now)))
	}
}
