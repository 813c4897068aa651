package limit

import "time"

// State is what one key has used of a limit. The zero State has used nothing. A
// State belongs to the plan that it was first used with, until another adopts
// it, and must not be copied.
type State struct {
	// at is, by algorithm: the time of the newest admission (Window, exact), the
	// number of the newest sub-slot (Window) or interval (Fixed), the theoretical
	// arrival time of the next admission (GCRA).
	at int64

	// used is the sum of cells (Window in sub-slots), the admissions of the
	// interval (Fixed), or the place in cells that is written next (Window,
	// exact).
	used uint64

	// cells are admission times (Window, exact) or counts of sub-slots (Window).
	cells []int64
}

// Verdict is the answer to a request.
type Verdict struct {
	Allowed    bool
	Never      bool          // more was asked than the burst: it can never pass
	Remaining  uint64        // admissions that would be allowed now, after this one
	RetryAfter time.Duration // until the request would be allowed; 0 if it was
	Reset      time.Duration // until the whole burst is there again
}

// Take admits n requests at the time now, all or none, and says so. A denied
// request uses nothing; n = 0 asks for the state and is allowed. A time before
// one seen earlier counts as that one.
//
// Cost: O(burst) for Window up to 16, else O(1); no allocation after the first
// admissions.
func (p *Plan) Take(s *State, now int64, n uint64) Verdict {
	v := p.Peek(s, now, n)
	if v.Allowed && n > 0 {
		p.admit(s, now, n)
		v.Remaining -= n
		v.Reset = p.reset(s, now)
	}
	return v
}

// Peek says what Take would decide, and takes nothing: Remaining is before the
// request.
func (p *Plan) Peek(s *State, now int64, n uint64) Verdict {
	free := p.free(s, now)
	v := Verdict{Allowed: n <= free, Remaining: free, Reset: p.reset(s, now)}
	switch {
	case n > p.limit.Burst:
		v.Never = true
	case !v.Allowed:
		v.RetryAfter = time.Duration(p.wait(s, now, n))
	}
	return v
}

// free is how many admissions would be allowed at the time now.
func (p *Plan) free(s *State, now int64) uint64 {
	var used uint64
	switch {
	case p.limit.Algorithm == Fixed:
		used = s.fixedUsed(p, now)
	case p.limit.Algorithm == GCRA:
		used = s.gcraUsed(p, now)
	case p.exact():
		used = s.ringUsed(p, now)
	default:
		s.slotsAdvance(p, now)
		used = s.used
	}
	return p.limit.Burst - min(used, p.limit.Burst)
}

// admit takes n, of which free said they fit.
func (p *Plan) admit(s *State, now int64, n uint64) {
	switch {
	case p.limit.Algorithm == Fixed:
		s.fixedAdmit(p, now, n)
	case p.limit.Algorithm == GCRA:
		s.gcraAdmit(p, now, n)
	case p.exact():
		s.ringAdmit(p, now, n)
	default:
		s.slotsAdmit(p, now, n)
	}
}

// wait is how long from now n admissions do not fit, in ns; n <= burst.
func (p *Plan) wait(s *State, now int64, n uint64) int64 {
	switch {
	case p.limit.Algorithm == Fixed:
		return s.fixedWait(p, now, n)
	case p.limit.Algorithm == GCRA:
		return s.gcraWait(p, now, n)
	case p.exact():
		return s.ringWait(p, now, n)
	default:
		return s.slotsWait(p, now, n)
	}
}

func (p *Plan) reset(s *State, now int64) time.Duration {
	return time.Duration(max(0, p.wait(s, now, p.limit.Burst)))
}
