package server

import (
	"errors"
	"math"

	weir "github.com/weir-counter/weir"
)

// maxListed is how many rejected lines an answer lists.
const maxListed = 20

// HitsAnswer is what became of a body of hits: the answer of POST /v1/hits,
// and part of its problem documents.
type HitsAnswer struct {
	Counted       uint64         `json:"counted" doc:"Hits counted (the sum of n), late ones included."`
	Late          uint64         `json:"late" doc:"How many of counted were older than the newest hit of their key."`
	TooLate       uint64         `json:"too_late" doc:"Hits not counted: older than the retention."`
	RejectedLines int            `json:"rejected_lines" doc:"Lines not counted because of what they say."`
	Rejected      []rejectedLine `json:"rejected" nullable:"false" doc:"The first 20 of them."`
	RetryFrom     int            `json:"retry_from,omitempty" doc:"The journal is behind: this line and those after it were refused as overloaded. Send them again later, under another Idempotency-Key."`
	Durable       bool           `json:"durable,omitempty" doc:"The hits counted are on disk."`

	overload string // why RetryFrom was refused
}

type rejectedLine struct {
	Line    int       `json:"line" doc:"Number of the line, or of the element of an array, from 1."`
	Code    weir.Code `json:"code" example:"invalid_count" doc:"Stable name of the reason."`
	Message string    `json:"message"`
}

func (a *HitsAnswer) reset() {
	*a = HitsAnswer{Rejected: a.Rejected[:0]}
	if a.Rejected == nil {
		a.Rejected = []rejectedLine{} // an empty array in JSON, not null
	}
}

func (a *HitsAnswer) reject(line int, r *rejection) {
	a.RejectedLines++
	if len(a.Rejected) < maxListed {
		a.Rejected = append(a.Rejected, rejectedLine{line, r.code, r.message})
	}
}

var rejectOverloaded = &rejection{weir.CodeOverloaded, "the journal is behind and its buffer is full: send this line and those after it again in a second"}

// took notes what the engine did with a hit of line. It returns an error when
// no further hit can be counted.
func (a *HitsAnswer) took(line int, n uint64, outcome weir.Outcome, err error) error {
	if err != nil {
		var e *weir.Error
		if !errors.As(err, &e) || e.Code == weir.CodeClosed {
			return err
		}
		r := &rejection{e.Code, e.Message}
		if e.Code == weir.CodeOverloaded {
			a.RetryFrom, a.overload = line, e.Message
		}
		a.reject(line, r)
		return nil
	}
	switch outcome {
	case weir.TooLate:
		a.TooLate = add(a.TooLate, n)
	case weir.Late:
		a.Late = add(a.Late, n)
		a.Counted = add(a.Counted, n)
	default:
		a.Counted = add(a.Counted, n)
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
