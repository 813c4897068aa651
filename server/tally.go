package server

import (
	"errors"
	"math"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
)

// tally is what became of a body of hits so far.
type tally struct {
	api.HitsAnswer
	overload string // why RetryFrom was refused
}

func (t *tally) reset() {
	*t = tally{HitsAnswer: api.HitsAnswer{Rejected: t.Rejected[:0]}}
	if t.Rejected == nil {
		t.Rejected = []api.RejectedLine{} // an empty array in JSON, not null
	}
}

func (t *tally) reject(line int, r *rejection) {
	t.RejectedLines++
	if len(t.Rejected) < api.MaxRejected {
		t.Rejected = append(t.Rejected, api.RejectedLine{Line: line, Code: r.code, Message: r.message})
	}
}

var rejectOverloaded = &rejection{api.CodeOverloaded, "the journal is behind and its buffer is full: send this line and those after it again in a second"}

// took notes what the engine did with a hit of line. It returns an error when
// no further hit can be counted.
func (t *tally) took(line int, n uint64, outcome weir.Outcome, err error) error {
	if err != nil {
		var e *weir.Error
		if !errors.As(err, &e) || e.Code == weir.CodeClosed {
			return err
		}
		r := &rejection{api.Code(e.Code), e.Message}
		if e.Code == weir.CodeOverloaded {
			t.RetryFrom, t.overload = line, e.Message
		}
		t.reject(line, r)
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
