// Package tally is what became of the hits of a request: counted, late, rejected line by line, refused by a ceiling or by a journal
// that is behind; the error that the request ends with; and what is kept of it for its repeats.
//
// Invariant: once a line is refused for a ceiling of hits or by the journal, all lines after it are, so that there is one line to begin again from. The
// list of rejected lines is bounded; their number is not.
//
// Neighbours: package service makes and ends tallies (Reset, Admits, Took, Verdict, Receipt, Recall); a door counts Line up, and
// calls Reject and Refuses.
package tally

import (
	"errors"
	"math"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/parse"
	"github.com/weir-counter/weir/service/rights"
)

// Tally is what became of the hits of a request so far. Service.Ingest comes before the first hit.
type Tally struct {
	api.HitsAnswer
	Line int // of the hit that is read, from 1, for messages; the door counts it up

	may  rights.Rights
	last api.Code // of the line that was rejected last

	stopped    *parse.Rejection // why RetryFrom was refused, and all lines after it
	Overloaded int              // lines refused because the journal was behind
	forbidden  int              // lines with keys that the role is not for
	over       int              // lines over a ceiling
	wait       time.Duration    // until there is room under it
}

// Reset begins a request anew, for a caller with this access, in the memory that it has.
func (t *Tally) Reset(may rights.Rights) {
	*t = Tally{HitsAnswer: api.HitsAnswer{Rejected: t.Rejected[:0]}, may: may}
	if t.Rejected == nil {
		t.Rejected = []api.RejectedLine{} // an empty array in JSON, not null
	}
}

// Reject notes that the hit of Line was not counted, and why.
func (t *Tally) Reject(r *parse.Rejection) {
	t.RejectedLines++
	t.last = r.Code
	if len(t.Rejected) < api.MaxRejected {
		t.Rejected = append(t.Rejected, api.RejectedLine{Line: t.Line, Code: r.Code, Message: r.Message})
	}
}

// LastRejected is the code of the line that was rejected last; "": there was none. It is for doors that can't
// answer with the list.
func (t *Tally) LastRejected() api.Code { return t.last }

var rejectOverloaded = parse.Reject(api.CodeOverloaded, "the journal is behind and its buffer is full: send this line and those after it again in a second")

// Refuses tells whether the journal was behind, or the caller's ceiling reached, at a line before, and
// notes Line as refused if so: there is one line to begin again from, whatever became free
// meanwhile.
func (t *Tally) Refuses() bool {
	if t.RetryFrom == 0 {
		return false
	}
	if t.stopped.Code == api.CodeOverloaded {
		t.Overloaded++
		t.Reject(rejectOverloaded)
	} else {
		t.Reject(t.stopped)
	}
	return true
}

// Took notes what the engine did with the hit of Line. It returns an error when
// no further hit can be counted.
func (t *Tally) Took(n uint64, outcome weir.Outcome, err error) error {
	if err != nil {
		var e *weir.Error
		if !errors.As(err, &e) || e.Code == weir.CodeClosed {
			return err
		}
		if e.Code == weir.CodeOverloaded {
			t.RetryFrom, t.stopped = t.Line, parse.Reject(api.CodeOverloaded, e.Message)
			t.Overloaded++
		}
		t.Reject(parse.Reject(api.Code(e.Code), e.Message))
		return nil
	}
	switch outcome {
	case weir.TooLate:
		t.TooLate = add(t.TooLate, n)
	case weir.ForHistory:
		t.History = add(t.History, n)
		t.Counted = add(t.Counted, n)
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
