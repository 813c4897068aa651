package limit

// GCRA: State.at is the theoretical arrival time, at which the bucket would be
// full again; each admission moves it on by the width of one, and it is never
// more than Burst widths ahead.

func (s *State) gcraUsed(p *Plan, now int64) uint64 {
	ahead := s.at - now
	if ahead <= 0 {
		return 0
	}
	return uint64(ahead+p.width-1) / uint64(p.width)
}

func (s *State) gcraAdmit(p *Plan, now int64, n uint64) {
	s.at = max(s.at, now) + int64(n)*p.width
}

func (s *State) gcraWait(p *Plan, now int64, n uint64) int64 {
	return max(0, s.at-now-int64(p.limit.Burst-n)*p.width)
}
