package limit

// Adopt makes p the state's plan in place of old, at the time now, without a
// fresh allowance: every admission that old still knows of counts under p as well,
// at the latest time at which it may have been. The new limit may therefore admit
// less than it would have from the start, but never more.
//
// Times later than now count as now: with p itself as old it repairs a state whose
// clock was ahead, and changes nothing otherwise.
func (p *Plan) Adopt(s *State, old *Plan, now int64) {
	now = clamp(now)
	if *old == *p && !p.ahead(s, now) {
		return
	}
	if p.form == gcra && old.form == gcra {
		s.gcraAdopt(p, old, now)
		return
	}
	var room [subSlots + 1]admissions
	was := old.history(s, now, room[:0])
	*s = State{}
	for _, a := range was {
		if p.form == ring || p.form == slots {
			p.Charge(s, a.at, a.n)
		} else if now-a.at < p.interval { // these have no past: as if just now
			p.Charge(s, now, a.n)
		}
	}
}

// ahead tells whether the state has seen a time later than now.
func (p *Plan) ahead(s *State, now int64) bool {
	switch p.form {
	case ring:
		return s.at > now
	case slots:
		return s.at > now/p.width
	case fixed:
		return s.at > now/p.interval
	default:
		return int64(s.used) > now
	}
}

// admissions are n of them at a time, or earlier.
type admissions struct {
	at int64
	n  uint64
}

// history appends what the state knows of its admissions, the oldest first.
func (p *Plan) history(s *State, now int64, list []admissions) []admissions {
	used := p.limit.Burst - p.free(s, now)
	switch {
	case used == 0:
	case p.form == ring:
		for k := int(used); k >= 1; k-- {
			at, _ := s.ringTime(p, k)
			list = append(list, admissions{min(at, now), 1})
		}
	case p.form == slots:
		for slot := max(0, s.at-subSlots); slot <= s.at; slot++ {
			if n := *s.slotsCell(slot); n > 0 {
				list = append(list, admissions{min((slot+1)*p.width-1, now), uint64(n)})
			}
		}
	default:
		list = append(list, admissions{now, used})
	}
	return list
}
