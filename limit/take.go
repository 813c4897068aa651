package limit

import "time"

// Allow is Take that says only whether: for callers who need no verdict, at a
// fraction of its cost.
//
// Cost: O(n) for Window up to a burst of 16, else O(1); no allocation after the
// first admissions.
func (p *Plan) Allow(s *State, now int64, n uint64) bool {
	if n-1 >= p.limit.Burst {
		return p.Take(s, now, n).Allowed // none, or more than can pass: rare
	}
	now = clamp(now)
	var allowed bool
	switch p.form {
	case ring:
		allowed = s.ringAllow(p, now, n)
	case slots:
		allowed = s.slotsAllow(p, now, n)
	case fixed:
		allowed = s.fixedAllow(p, now, n)
	default:
		allowed = s.gcraAllow(p, now, n)
	}
	if allowed && s.HasPast() {
		p.remember(s, now, n)
	}
	return allowed
}

// Take admits n requests at the time now, all or none, and says so. A denied
// request uses nothing; n = 0 asks for the state and is allowed. A time before
// one seen earlier counts as that one.
//
// Cost: O(burst) for Window up to 16, else O(1); no allocation after the first
// admissions.
func (p *Plan) Take(s *State, now int64, n uint64) Verdict {
	now = clamp(now)
	free := p.free(s, now)
	if n > free {
		return p.denied(s, now, n, free)
	}
	if n > 0 {
		p.admit(s, now, n)
	}
	return Verdict{Allowed: true, Remaining: free - n, Reset: p.reset(s, now)}
}

// Peek says what Take would decide, and takes nothing: Remaining is before the
// request.
func (p *Plan) Peek(s *State, now int64, n uint64) Verdict {
	now = clamp(now)
	free := p.free(s, now)
	if n > free {
		return p.denied(s, now, n, free)
	}
	return Verdict{Allowed: true, Remaining: free, Reset: p.reset(s, now)}
}

func (p *Plan) denied(s *State, now int64, n, free uint64) Verdict {
	v := Verdict{Never: n > p.limit.Burst, Remaining: free, Reset: p.reset(s, now)}
	if !v.Never {
		v.RetryAfter = p.wait(s, now, n)
	}
	return v
}

// free is how many admissions would be allowed at the time now.
func (p *Plan) free(s *State, now int64) uint64 {
	var used uint64
	switch p.form {
	case ring:
		used = s.ringUsed(p, now)
	case slots:
		s.slotsAdvance(p, now)
		used = s.used
	case fixed:
		s.fixedAdvance(p, now)
		used = s.used
	case gcra:
		used = s.gcraUsed(p, now)
	}
	return p.limit.Burst - min(used, p.limit.Burst)
}

// admit takes n, of which free said they fit, at the time now.
func (p *Plan) admit(s *State, now int64, n uint64) {
	switch p.form {
	case ring:
		s.ringAdmit(p, max(now, s.at), n)
	case slots:
		s.slotsAdmit(n)
	case fixed:
		s.used += n
	case gcra:
		s.gcraCharge(p, now, n)
	}
	if s.HasPast() {
		p.remember(s, now, n)
	}
}

// wait is how long from now n admissions do not fit; free was asked before, and
// n <= burst.
func (p *Plan) wait(s *State, now int64, n uint64) time.Duration {
	var wait int64
	switch p.form {
	case ring:
		wait = s.ringWait(p, now, n)
	case slots:
		wait = s.slotsWait(p, now, n)
	case fixed:
		wait = s.fixedWait(p, now, n)
	case gcra:
		wait = s.gcraWait(p, now, n)
	}
	return time.Duration(wait)
}

// reset is how long from now the whole burst is not there; free was asked before.
func (p *Plan) reset(s *State, now int64) time.Duration {
	var reset int64
	switch p.form {
	case ring:
		reset = s.ringReset(p, now)
	case slots:
		reset = s.slotsReset(p, now)
	case fixed:
		reset = s.fixedReset(p, now)
	case gcra:
		reset = s.gcraReset(now)
	}
	return time.Duration(reset)
}
