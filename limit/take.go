package limit

import (
	"time"
	"unsafe"
)

// Allow is Take that says only whether: for callers who need no verdict, at a fraction of its cost.
//
// Cost: O(1), amortized for Window over the admissions that leave; a Window allocates
// while the number of admissions that it remembers grows.
func (p *Plan) Allow(s *State, now int64, n uint64) bool {
	if n-1 >= p.limit.Burst {
		return p.Take(s, now, n).Allowed // none, or more than can pass: rare
	}
	now = clamp(now)
	var allowed bool
	switch p.form {
	case log:
		if allowed = s.logUsed(p, now)+n <= p.limit.Burst; allowed {
			s.logAdmit(p, now, n)
		}
	case fixed:
		allowed = s.fixedAllow(p, now, n)
	default:
		allowed = s.gcraAllow(p, now, n)
	}
	if allowed && s.past != nil {
		p.remember(s, now, n)
	}
	return allowed
}

// Take admits n requests at the time now, all or none, and says so. A denied request uses nothing; n = 0 asks for the
// state and is allowed. A time before one seen earlier counts as that one.
//
// Cost: as Allow; a denial by a Window reads the admissions that have to leave.
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

// Peek says what Take would decide, and takes nothing: Remaining is before the request.
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
	case log:
		used = s.logUsed(p, now)
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
	case log:
		s.logAdmit(p, now, n)
	case fixed:
		s.used += n
	case gcra:
		s.gcraCharge(p, now, n)
	}
	if s.past != nil {
		p.remember(s, now, n)
	}
}

// wait is how long from now n admissions do not fit; free was asked before, and n <= burst.
func (p *Plan) wait(s *State, now int64, n uint64) time.Duration {
	var wait int64
	switch p.form {
	case log:
		wait = s.logWait(p, now, n)
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
	case log:
		reset = s.logReset(p, now)
	case fixed:
		reset = s.fixedReset(p, now)
	case gcra:
		reset = s.gcraReset(now)
	}
	return time.Duration(reset)
}

// Charge admits n at the time at without asking: for admissions that were decided
// elsewhere or in an earlier life. It never makes later decisions more generous.
//
// The time may be older than what s has seen. Window then counts it where it belongs, Fixed ignores earlier intervals,
// and GCRA counts it at the newest time seen. It must not be later than the caller's own clock, or it would become the
// newest time seen: pass min(at, now). For decisions, more than the burst counts as the burst. Only a wider limit can
// have admitted more than the burst at once. If that was charged, a wider limit that adopts the state later counts all
// of it.
//
// Cost: as Take; for an older time a Window moves the admissions that are newer.
func (p *Plan) Charge(s *State, at int64, n uint64) {
	if n == 0 {
		return
	}
	at, n = clamp(at), min(n, MaxBurst)
	s.pastLapse(p, at)
	if n > p.limit.Burst && p.form != fixed {
		p.beginPast(s, at)
	}
	p.charge(s, at, n)
	if s.past != nil {
		s.past.add(at, n)
	}
}

// beginPast gives a state a past of what its form knows. It lasts for as long as a wider limit matters that was in use
// at the time at. If the state has a past already, beginPast only extends it.
func (p *Plan) beginPast(s *State, at int64) {
	if s.past != nil {
		s.past.reach = s.past.with(p.interval, at)
		return
	}
	at = max(at, p.newest(s))
	s.pastBegin(reach{interval: p.interval, used: at}, p.formHistory(s, at, nil))
}

// charge is Charge of what the plan's form can hold.
func (p *Plan) charge(s *State, at int64, n uint64) {
	switch p.form {
	case log:
		s.logCharge(p, at, min(n, p.limit.Burst))
	case fixed:
		s.fixedCharge(p, at, n)
	case gcra:
		s.gcraCharge(p, at, min(n, p.limit.Burst))
	}
}

// State is what one key has used of a limit. The zero State has used nothing. A State belongs to the plan that it was
// first used with, until another adopts it, and must not be copied.
//
// What the fields hold is said where each form is kept: log, fixed, gcra.
type State struct {
	at    int64
	used  uint64
	cells *int64 // the first of size

	size, head, entries uint16

	past *past // nil: none
}

// Size is the memory of s in bytes, beyond the struct's 40 bytes. It is 0 for Fixed, GCRA and a Window whose admissions
// were all at one time. Another Window takes 8 bytes for each time that it remembers, at most 256, and up to half as
// many in reserve. Space that Begin gave s is included. A state that knows more than its form can hold has 296 more
// (see Adopt).
func (s *State) Size() int {
	if s.past != nil {
		return 8*int(s.size) + int(unsafe.Sizeof(*s.past))
	}
	return 8 * int(s.size)
}

// SizeWithout is Size without the space that Begin gave s, if s still uses it.
func (s *State) SizeWithout(space []int64) int {
	if len(space) > 0 && s.cells == unsafe.SliceData(space) {
		return s.Size() - 8*int(s.size)
	}
	return s.Size()
}

// Begin gives s space for its cells, if it may have so many and those that it has fit. The space belongs to s from then
// on: a decision that finds its cells next to the State waits for memory once. More than fit have memory of their own.
func (p *Plan) Begin(s *State, space []int64) {
	if n := len(space); n > 0 && n <= p.most && n >= int(s.entries) && s.cells != unsafe.SliceData(space) {
		s.logMove(space)
	}
}

// Near is how many cells should lie next to a State of the plan, at little cost in memory. Only a Window with a burst
// above 16 has any. An entry of a table with a State of 40 bytes, 24 bytes more and 7 cells takes two cache lines.
func (p *Plan) Near() int {
	if p.form == log && p.limit.Burst > 16 {
		return 7
	}
	return 0
}

// Verdict is the answer to a request.
type Verdict struct {
	Allowed    bool
	Never      bool          // more was asked than the burst: it can never pass
	Remaining  uint64        // admissions that would be allowed now, after this one
	RetryAfter time.Duration // until the request would be allowed; 0 if it was
	Reset      time.Duration // until the whole burst is there again
}

// Idle reports whether nothing that s knows matters any more. For times from now on a zero State decides the same, also
// for a limit that adopts s, so s may be forgotten. O(1); takes nothing.
func (p *Plan) Idle(s *State, now int64) bool {
	now = clamp(now)
	if !s.pastIdle(p, now) {
		return false
	}
	switch p.form {
	case log:
		return s.logIdle(p, now)
	case fixed:
		return s.fixedIdle(p, now)
	default:
		return s.at <= now
	}
}
