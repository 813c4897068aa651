package limit

import "time"

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
// 24 to 136 beyond that, by how many sub-slots count. A state that knows more than these can hold has 296 more, those for
// its form at once: see Adopt.
func (s *State) Size() int { return 8 * cap(s.cells) }

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
