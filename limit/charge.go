package limit

// Charge admits n at the time at without asking: for admissions that were decided
// elsewhere or in an earlier life. It never makes later decisions more generous.
//
// The time may be older than what s has seen: Window counts it where it belongs,
// Fixed ignores earlier intervals, GCRA counts it as if at the newest time seen. It
// must not be later than the caller's own clock, or it would count as the newest
// time seen: pass min(at, now). More than the burst decides nothing more than the burst
// does. A limit with a larger one that adopts the state later counts them all, if more
// than the burst was charged at once, which only a wider limit has admitted.
//
// Cost: as Take; O(burst) for an older time of a Window up to 16.
func (p *Plan) Charge(s *State, at int64, n uint64) {
	if n == 0 {
		return
	}
	at, n = clamp(at), min(n, MaxBurst)
	s.pastLapse(p, at)
	if n > p.limit.Burst && (p.form == ring || p.form == gcra) {
		p.beginPast(s, at)
	}
	p.charge(s, at, n)
	if s.HasPast() {
		s.pastAdd(at, n)
	}
}

// beginPast gives a state a past, of what its form knows, for as long as a wider
// limit that was in use at the time at matters; or keeps the one it has for that long.
func (p *Plan) beginPast(s *State, at int64) {
	if s.HasPast() {
		past, r := s.past(), s.pastReach().with(p.interval, at)
		past[1], past[2] = r.used, r.next
		return
	}
	if p.form == gcra {
		at = max(at, int64(s.used))
	} else {
		at = max(at, s.at)
	}
	var room [subSlots + 1]admissions
	s.pastBegin(p, reach{interval: p.interval, used: at}, p.formHistory(s, at, room[:0]))
}

// charge is Charge of what the plan's form can hold.
func (p *Plan) charge(s *State, at int64, n uint64) {
	switch p.form {
	case ring:
		s.ringCharge(p, at, min(n, p.limit.Burst))
	case slots:
		s.slotsCharge(p, at, n)
	case fixed:
		s.fixedCharge(p, at, n)
	case gcra:
		s.gcraCharge(p, at, min(n, p.limit.Burst))
	}
}
