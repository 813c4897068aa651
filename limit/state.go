package limit

import (
	"time"
	"unsafe"
)

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
