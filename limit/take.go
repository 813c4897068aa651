package limit

import (
	"time"
	"unsafe"
)

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

// State is what one key has used of a limit. The zero State has used nothing. A
// State belongs to the plan that it was first used with, until another adopts
// it, and must not be copied.
//
// What the fields hold is said where each form is kept: ring, slots, fixed, gcra.
type State struct {
	at    int64
	used  uint64
	cells []int64
}

// Size is the memory of s beyond the struct's 40 bytes, in bytes: 0 for Fixed, GCRA
// and a Window with a burst of 1, up to 8 for each further one of a burst up to 16,
// 24 to 136 beyond that, by how many sub-slots count, room that Begin gave it included. A state that knows more than these can hold has 296 more, those for
// its form at once: see Adopt.
func (s *State) Size() int { return 8 * cap(s.cells) }

// SizeBeside is Size but for room that Begin gave s and that it still uses.
func (s *State) SizeBeside(room []int64) int {
	if len(room) > 0 && unsafe.SliceData(s.cells) == unsafe.SliceData(room) {
		return 0
	}
	return s.Size()
}

// Begin gives s room for its cells, if those that it has fit, which is its own from then on: a decision that
// finds them beside the State waits for memory once. More than fit have memory of their own.
func (s *State) Begin(room []int64) {
	if len(s.cells) <= len(room) {
		s.cells = append(room[:0], s.cells...)
	}
}

// Near is how many cells a State of the plan should have room for beside it, at little cost in memory:
// those of a large burst, of which each decision reads some. With a State of 40 bytes, 24 beside it and 7 cells an
// entry of a table has two cache lines.
func (p *Plan) Near() int {
	if p.form == slots {
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

// Idle tells whether nothing that s knows matters any more: for times from now on
// a zero State decides the same, so s may be forgotten, also by a limit that adopts
// it. O(1); takes nothing.
func (p *Plan) Idle(s *State, now int64) bool {
	now = clamp(now)
	if !s.pastIdle(p, now) {
		return false
	}
	switch p.form {
	case ring:
		return s.ringIdle(p, now)
	case slots:
		return s.slotsIdle(p, now)
	case fixed:
		return s.fixedIdle(p, now)
	default:
		return s.at <= now
	}
}
