package limit

import "slices"

// Refund gives back up to n admissions that were taken at the time at, and returns by
// how many more are free for it. A time later than the newest admission counts as that
// one: who does not know when, and gives back what was just taken, passes now.
//
// It never makes s fresher than if these had not been admitted, so that what was really
// used keeps the limit: Window gives back admissions at that time, or earlier ones for
// want of them, the newest of these first; Fixed those of the present interval; GCRA
// what the bucket has not filled since anyway. What has left the window is not there to
// be given back: n is clipped.
//
// Cost: as Charge.
func (p *Plan) Refund(s *State, now, at int64, n uint64) (free uint64) {
	now, at = clamp(now), clamp(at)
	if n == 0 {
		return 0
	}
	s.pastLapse(p, now)
	before := p.free(s, now)
	switch {
	case s.HasPast():
		p.refundPast(s, now, at, n)
	default:
		p.refundForm(s, now, at, n)
	}
	return min(n, p.free(s, now)-before)
}

// refundForm is Refund of what the plan's form holds.
func (p *Plan) refundForm(s *State, now, at int64, n uint64) {
	switch p.form {
	case ring:
		s.ringRefund(p, now, at, n)
	case slots:
		s.slotsRefund(p, now, at, n)
	case fixed:
		s.fixedRefund(p, now, at, n)
	case gcra:
		s.gcraRefund(p, now, at, n)
	}
}

// refundPast is Refund of a state that knows more than its form holds: that moves up
// in place of what is given back.
func (p *Plan) refundPast(s *State, now, at int64, n uint64) {
	var room [2 * (subSlots + 1)]admissions
	var pastRoom [subSlots + 1]admissions
	was := p.history(s, now, room[:0])
	past, matters := s.pastWithin(pastRoom[:0], now), s.pastReach()
	giveBack(past, at, n)
	switch p.form {
	case ring, slots:
		giveBack(was, at, n)
		*s = State{}
		p.chargeAll(s, now, was)
	default:
		within := uint64(0)
		for _, a := range past {
			if now-a.at < p.interval {
				within += a.n
			}
		}
		if p.form == fixed || within <= p.limit.Burst {
			p.refundForm(s, now, at, n)
		}
	}
	s.pastBegin(p, matters, past)
}

// giveBack takes up to n out of a list, the oldest first, of those not later than at,
// the newest of them first.
func giveBack(list []admissions, at int64, n uint64) {
	for i := len(list) - 1; i >= 0 && n > 0; i-- {
		if list[i].at <= at {
			give := min(n, list[i].n)
			list[i].n -= give
			n -= give
		}
	}
}

func (s *State) ringRefund(p *Plan, now, at int64, n uint64) {
	if max(now, s.at)-at >= p.interval {
		return
	}
	var room [ringMost]int64
	times := s.ringTimes(p, room[:0])
	slices.Sort(times)
	last, _ := slices.BinarySearch(times, at+1) // of those at that time
	first := last - int(min(n, uint64(last)))
	times = slices.Delete(times, first, last)
	s.used = 0
	for _, t := range times {
		s.ringPush(p, t)
	}
}

func (s *State) slotsRefund(p *Plan, now, at int64, n uint64) {
	s.slotsAdvance(p, now)
	if s.used == 0 || now-at >= p.interval {
		return
	}
	for slot := min(at/p.width, s.at); slot >= max(0, s.at-subSlots) && n > 0; slot-- {
		cell := s.slotsCell(slot)
		give := min(n, uint64(*cell))
		*cell -= int64(give)
		s.used -= give
		n -= give
	}
}

func (s *State) fixedRefund(p *Plan, now, at int64, n uint64) {
	s.fixedAdvance(p, now)
	if at/p.interval >= s.at {
		s.used -= min(n, s.used)
	}
}

// gcraRefund: had n not been admitted, the bucket would be fuller by them, less what it
// would have had no room for since: at most what it fills in that time.
func (s *State) gcraRefund(p *Plan, now, at int64, n uint64) {
	now = max(now, int64(s.used))
	give := int64(min(n, p.limit.Burst))*p.width - max(0, now-at)
	s.at -= max(0, min(give, s.at-now))
}
