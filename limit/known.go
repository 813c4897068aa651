package limit

// Known calls f with what the state knows of the admissions that still matter at the
// time now: n of them, each at the latest time at which it may have been, the oldest
// first. Another state that is charged with all of them decides no more generously.
// At most 34 calls.
func (p *Plan) Known(s *State, now int64, f func(at int64, n uint64)) {
	now = clamp(now)
	s.pastLapse(p, now)
	var room [2 * (subSlots + 1)]admissions
	for _, a := range p.history(s, now, room[:0]) {
		f(a.at, a.n)
	}
}
