package limit

// admissions are n of them at a time, or earlier.
type admissions struct {
	at int64
	n  uint64
}

func total(list []admissions) (n uint64) {
	for _, a := range list {
		n += a.n
	}
	return n
}

// history appends what the state knows of the admissions after now-within, which is
// at most the interval: each at the latest time at which it may have been, none after
// now, the oldest first. At most 33, for an empty list.
func (p *Plan) history(s *State, now, within int64, list []admissions) []admissions {
	add := func(at int64, n uint64) {
		if at = min(at, now); n > 0 && now-at < within {
			list = append(list, admissions{at, n})
		}
	}
	if s.hasPast() {
		var room [subSlots + 1]admissions
		for _, a := range s.pastList(room[:0]) {
			add(a.at, a.n)
		}
		if p.form != ring {
			return list
		}
	}
	switch p.form {
	case ring:
		count := 0 // of the newest times, after now-within
		for count < int(p.limit.Burst) {
			if at, ok := s.ringTime(p, count+1); !ok || now-min(at, now) >= within {
				break
			}
			count++
		}
		if count > 0 {
			oldest, _ := s.ringTime(p, count)
			list = before(list, uint64(count), min(oldest, now))
		}
		for k := count; k >= 1; k-- {
			at, _ := s.ringTime(p, k)
			add(at, 1)
		}
	case slots:
		s.slotsAdvance(p, now)
		for slot := max(0, s.at-subSlots); s.used > 0 && slot <= s.at; slot++ {
			add((slot+1)*p.width-1, uint64(*s.slotsCell(slot)))
		}
	case fixed:
		s.fixedAdvance(p, now)
		add(now, s.used)
	case gcra:
		add(int64(s.used), s.gcraUsed(p, now))
	}
	return list
}

// before is the list without the newest n, the others not after the time at.
func before(list []admissions, n uint64, at int64) []admissions {
	for len(list) > 0 {
		last := &list[len(list)-1]
		if last.n > n {
			last.n -= n
			break
		}
		n -= last.n
		list = list[:len(list)-1]
	}
	for i := range list {
		list[i].at = min(list[i].at, at)
	}
	return list
}
