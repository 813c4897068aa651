package limit

import "slices"

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

// history appends what the state knows of the admissions within its reach, that of the
// past or else the interval: each at the latest time at which it may have been, none
// after now, the oldest first. At most 34, for an empty list.
//
// The past knows all of them. What ring and slots know of the newest is often more
// exact, but moves later at each change from slots: so each counts at the earlier time.
func (p *Plan) history(s *State, now int64, list []admissions) []admissions {
	if !s.HasPast() {
		return p.formHistory(s, now, list)
	}
	var pastRoom, formRoom [subSlots + 1]admissions
	past := s.pastWithin(pastRoom[:0], now)
	if p.form == fixed || p.form == gcra {
		return append(list, past...)
	}
	form := p.formHistory(s, now, formRoom[:0])
	others := now - p.interval
	switch {
	case p.ahead(s, now): // and has forgotten others as of then
		others = now
	case p.form == ring && total(form) == p.limit.Burst:
		others = form[0].at
	}
	return earlier(list, past, form, others)
}

// formHistory is history of what the form holds, at most 17.
func (p *Plan) formHistory(s *State, now int64, list []admissions) []admissions {
	add := func(at int64, n uint64) {
		if at = min(at, now); n > 0 && now-at < p.interval {
			list = append(list, admissions{at, n})
		}
	}
	switch p.form {
	case ring:
		for k := int(min(s.used, p.limit.Burst)); k >= 1; k-- {
			at, _ := s.ringTime(p, k)
			add(at, 1)
		}
	case slots:
		s.slotsAdvance(p, now)
		for _, cell := range s.slotsOpen() {
			add((s.slotOf(cell)+1)*p.width-1, uint64(cell>>slotBits))
		}
	case fixed:
		s.fixedAdvance(p, now)
		add(now, s.used)
	case gcra:
		add(int64(s.used), s.gcraUsed(p, now))
	}
	return list
}

// earlier appends the admissions of the past, the k-th newest at the earlier of its
// times in the past and in the form, the others no later than that time. It uses up
// both lists.
func earlier(list, past, form []admissions, others int64) []admissions {
	began := len(list)
	for len(past) > 0 {
		last := &past[len(past)-1]
		a := *last
		if len(form) > 0 {
			newest := &form[len(form)-1]
			a = admissions{min(a.at, newest.at), min(a.n, newest.n)}
			if newest.n -= a.n; newest.n == 0 {
				form = form[:len(form)-1]
			}
		} else {
			a.at = min(a.at, others)
		}
		if last.n -= a.n; last.n == 0 {
			past = past[:len(past)-1]
		}
		list = append(list, a)
	}
	slices.Reverse(list[began:])
	return list
}
