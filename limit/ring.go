package limit

// The exact form of Window: the times of the last Burst admissions.
//
// A request at the time t fits if the admissions after t-T, and it, are at most
// Burst. Any interval (u-T, u] that has more than Burst admissions would end at
// one of them, which was then not admitted.

// ringMost is the largest burst that is kept exactly: 128 bytes of times. Larger
// ones would make each decision look at more.
const ringMost = 16

// ringTime is the time of the k-th newest admission, k from 1; ok is false if
// there were fewer.
func (s *State) ringTime(p *Plan, k int) (at int64, ok bool) {
	if k > len(s.cells) {
		return 0, false
	}
	return s.cells[(int(s.used)-k+len(s.cells))%len(s.cells)], true
}

func (s *State) ringNow(now int64) int64 {
	if len(s.cells) == 0 {
		return now
	}
	return max(now, s.at)
}

func (s *State) ringUsed(p *Plan, now int64) (used uint64) {
	now = s.ringNow(now)
	for k := 1; k <= len(s.cells); k++ {
		if at, _ := s.ringTime(p, k); at <= now-p.interval {
			break
		}
		used++
	}
	return used
}

func (s *State) ringAdmit(p *Plan, now int64, n uint64) {
	s.at = s.ringNow(now)
	for range n {
		if uint64(len(s.cells)) < p.limit.Burst {
			s.cells = append(s.cells, s.at)
			s.used = uint64(len(s.cells)) % p.limit.Burst
			continue
		}
		s.cells[s.used] = s.at
		s.used = (s.used + 1) % p.limit.Burst
	}
}

// ringWait: n fit once the admission that is Burst-n+1 back has left.
func (s *State) ringWait(p *Plan, now int64, n uint64) int64 {
	at, ok := s.ringTime(p, int(p.limit.Burst-n)+1)
	if !ok {
		return 0
	}
	return max(0, at+p.interval-now)
}
