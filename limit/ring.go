package limit

import "slices"

// The exact form of Window: the times of the last Burst admissions.
//
// A request at the time t fits if the admissions after t-T, and it, are at most
// Burst. Any interval (u-T, u] that has more than Burst admissions would end at
// one of them, which was then not admitted.
//
// State.at is the newest admission, and cells are a ring of the up to Burst-1
// before it: a burst of 1 has no cells. State.used is 0 without admissions, then
// the number of them; when all Burst are there it goes on counting to 2*Burst-2 and
// back to Burst, and so keeps the place in the ring that is written next. The times
// never run back from one admission to the next.

// ringMost is the largest burst that is kept exactly: 120 bytes of times. Larger
// ones would make each verdict look at more.
const ringMost = 16

// ringOlder is how many times there are in cells, and where the next one goes.
func (s *State) ringOlder(p *Plan) (count, next int) {
	count, most := int(s.used)-1, int(p.limit.Burst)-1
	if count >= most {
		return most, count - most
	}
	return count, count
}

// ringTime is the time of the k-th newest admission, k from 1; ok is false if
// there were fewer.
func (s *State) ringTime(p *Plan, k int) (at int64, ok bool) {
	if uint64(k) > s.used {
		return 0, false
	}
	if k == 1 {
		return s.at, true
	}
	_, next := s.ringOlder(p)
	place := next - (k - 1)
	if place < 0 {
		place += int(p.limit.Burst) - 1
	}
	return s.cells[place], true
}

func (s *State) ringAllow(p *Plan, now int64, n uint64) bool {
	now = max(now, s.at)
	if at, ok := s.ringTime(p, int(p.limit.Burst-n)+1); ok && now-at < p.interval {
		return false
	}
	s.ringAdmit(p, now, n)
	return true
}

// ringAdmit remembers n admissions, at most Burst, at a time not before the newest.
func (s *State) ringAdmit(p *Plan, now int64, n uint64) {
	for range n {
		s.ringPush(p, now)
	}
}

func (s *State) ringPush(p *Plan, now int64) {
	if s.used == 0 || now-s.at >= p.interval {
		s.at, s.used = now, 1 // all earlier ones have left: a key in rare use needs no cells
		return
	}
	burst := p.limit.Burst
	if burst > 1 {
		_, next := s.ringOlder(p)
		if next == len(s.cells) {
			s.ringGrow(int(burst) - 1)
		}
		s.cells[next] = s.at
		if s.used++; s.used == 2*burst-1 {
			s.used = burst
		}
	}
	s.at = now
}

// ringGrow makes room for more: at once for a burst of up to 4, in steps beyond.
func (s *State) ringGrow(most int) {
	cells := make([]int64, min(most, max(3, 2*len(s.cells))))
	copy(cells, s.cells)
	s.cells = cells
}

func (s *State) ringUsed(p *Plan, now int64) (used uint64) {
	if s.used == 0 {
		return 0
	}
	left := max(now, s.at) - p.interval // at this time and before: no longer counted
	if s.at <= left {
		return 0
	}
	used = 1
	count, _ := s.ringOlder(p)
	for _, at := range s.cells[:count] { // in any order
		if at > left {
			used++
		}
	}
	return used
}

// ringCharge puts the admissions where they belong among the times, and so forgets
// the oldest: what is before the newest Burst times decides nothing any more.
func (s *State) ringCharge(p *Plan, at int64, n uint64) {
	if s.used == 0 || at >= s.at {
		s.ringAdmit(p, at, n)
		return
	}
	if s.at-at >= p.interval {
		return
	}
	var room [2 * ringMost]int64
	times := s.ringTimes(p, room[:0])
	for range n {
		times = append(times, at)
	}
	slices.Sort(times)
	s.used = 0
	for _, t := range times {
		s.ringPush(p, t)
	}
}

// ringTimes appends the times that the state remembers, in any order.
func (s *State) ringTimes(p *Plan, times []int64) []int64 {
	if s.used == 0 {
		return times
	}
	count, _ := s.ringOlder(p)
	return append(append(times, s.at), s.cells[:count]...)
}

// ringWait: n fit once the admission that is Burst-n+1 back has left.
func (s *State) ringWait(p *Plan, now int64, n uint64) int64 {
	at, ok := s.ringTime(p, int(p.limit.Burst-n)+1)
	if !ok || max(now, s.at)-at >= p.interval {
		return 0
	}
	return at + p.interval - now
}

func (s *State) ringReset(p *Plan, now int64) int64 {
	if s.used == 0 {
		return 0
	}
	return max(0, s.at+p.interval-now)
}

func (s *State) ringIdle(p *Plan, now int64) bool {
	return s.used == 0 || now-s.at >= p.interval
}
