package service

import (
	"errors"
	"math"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy"
)

// Reserved tells a key that no hit may name, since limits count their decisions under it.
// The other rules of keys are the engine's.
func Reserved(key []byte) bool {
	return len(key) >= len(policy.HitPrefix) && string(key[:len(policy.HitPrefix)]) == policy.HitPrefix
}

// ReservedMessage is what to say of a hit of a Reserved key, with CodeReservedKey.
const ReservedMessage = "keys limit:... are counted by limits alone, so that their counts are true: write another key"

// Hit counts n hits of a key that is not Reserved, at a time; line is the place in the
// request, from 1. What becomes of them is noted in t: a hit that the engine does not
// take is no error. It fails when no further hit can be counted. The engine keeps a copy
// of the key if it keeps it: this is the path of millions a second, and allocates nothing.
func (s *Service) Hit(t *Tally, line int, at time.Time, key string, n uint64) error {
	outcome, err := s.engine.HitAt(at, key, n)
	return t.took(line, n, outcome, err)
}

// Tally is what became of the hits of a request so far.
type Tally struct {
	api.HitsAnswer
	Overload string // why RetryFrom was refused
}

// Reset begins anew, with the memory it has.
func (t *Tally) Reset() {
	*t = Tally{HitsAnswer: api.HitsAnswer{Rejected: t.Rejected[:0]}}
	if t.Rejected == nil {
		t.Rejected = []api.RejectedLine{} // an empty array in JSON, not null
	}
}

// Reject notes a hit that was not counted, and why.
func (t *Tally) Reject(line int, code api.Code, message string) {
	t.RejectedLines++
	if len(t.Rejected) < api.MaxRejected {
		t.Rejected = append(t.Rejected, api.RejectedLine{Line: line, Code: code, Message: message})
	}
}

// took notes what the engine did with a hit of line. It returns an error when
// no further hit can be counted.
func (t *Tally) took(line int, n uint64, outcome weir.Outcome, err error) error {
	if err != nil {
		var e *weir.Error
		if !errors.As(err, &e) || e.Code == weir.CodeClosed {
			return err
		}
		if e.Code == weir.CodeOverloaded {
			t.RetryFrom, t.Overload = line, e.Message
		}
		t.Reject(line, api.Code(e.Code), e.Message)
		return nil
	}
	switch outcome {
	case weir.TooLate:
		t.TooLate = add(t.TooLate, n)
	case weir.Late:
		t.Late = add(t.Late, n)
		t.Counted = add(t.Counted, n)
	default:
		t.Counted = add(t.Counted, n)
	}
	return nil
}

// add stops at the largest number instead of starting again from zero.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
