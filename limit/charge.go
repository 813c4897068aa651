package limit

// Charge admits n at the time at without asking: for admissions that were decided
// elsewhere or in an earlier life. It never makes later decisions more generous.
//
// The time may be older than what s has seen: Window counts it where it belongs,
// Fixed ignores earlier intervals, GCRA counts it as if at the newest time seen. It
// must not be later than the caller's own clock, or it would count as the newest
// time seen: pass min(at, now). More than the burst at one time counts as the burst.
//
// Cost: as Take; O(burst) for an older time of a Window up to 16.
func (p *Plan) Charge(s *State, at int64, n uint64) {
	if n == 0 {
		return
	}
	at, n = clamp(at), min(n, p.limit.Burst)
	switch p.form {
	case ring:
		s.ringCharge(p, at, n)
	case slots:
		s.slotsCharge(p, at, n)
	case fixed:
		s.fixedCharge(p, at, n)
	case gcra:
		s.gcraCharge(p, at, n)
	}
}
