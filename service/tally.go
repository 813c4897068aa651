package service

import (
	"errors"
	"math"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
)

// Tally is what became of the hits of a request so far. Service.Ingest comes before the first.
type Tally struct {
	api.HitsAnswer
	Line int // of the hit that is read, from 1, for messages; the door counts it up

	may  access
	last api.Code // of the line that was rejected last

	stopped    *Rejection    // why RetryFrom was refused, and all lines after it
	overloaded int           // lines refused because the journal was behind
	forbidden  int           // lines with keys that the role is not for
	over       int           // lines over a ceiling
	wait       time.Duration // until there is room under it
}

// reset begins a request anew, for a caller with this access, in the memory that it has.
func (t *Tally) reset(may access) {
	*t = Tally{HitsAnswer: api.HitsAnswer{Rejected: t.Rejected[:0]}, may: may}
	if t.Rejected == nil {
		t.Rejected = []api.RejectedLine{} // an empty array in JSON, not null
	}
}

// Reject notes that the hit of Line was not counted, and why.
func (t *Tally) Reject(r *Rejection) {
	t.RejectedLines++
	t.last = r.Code
	if len(t.Rejected) < api.MaxRejected {
		t.Rejected = append(t.Rejected, api.RejectedLine{Line: t.Line, Code: r.Code, Message: r.Message})
	}
}

// LastRejected is the code of the line that was rejected last; "": there was none. It is for doors that can't
// answer with the list.
func (t *Tally) LastRejected() api.Code { return t.last }

var rejectOverloaded = &Rejection{api.CodeOverloaded, "the journal is behind and its buffer is full: send this line and those after it again in a second"}

// Refuses tells whether the journal was behind, or the caller's ceiling reached, at a line before, and
// notes Line as refused if so: there is one line to begin again from, whatever became free
// meanwhile.
func (t *Tally) Refuses() bool {
	if t.RetryFrom == 0 {
		return false
	}
	if t.stopped.Code == api.CodeOverloaded {
		t.overloaded++
		t.Reject(rejectOverloaded)
	} else {
		t.Reject(t.stopped)
	}
	return true
}

// took notes what the engine did with the hit of Line. It returns an error when
// no further hit can be counted.
func (t *Tally) took(n uint64, outcome weir.Outcome, err error) error {
	if err != nil {
		var e *weir.Error
		if !errors.As(err, &e) || e.Code == weir.CodeClosed {
			return err
		}
		if e.Code == weir.CodeOverloaded {
			t.RetryFrom, t.stopped = t.Line, &Rejection{api.CodeOverloaded, e.Message}
			t.overloaded++
		}
		t.Reject(&Rejection{api.Code(e.Code), e.Message})
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
