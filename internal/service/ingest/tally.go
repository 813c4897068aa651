package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

// Invariant: once a line is refused for a ceiling of hits or by the journal, all lines after it are, so that there is
// one line to begin again from. The list of rejected lines is bounded; their number is not. A listener counts Line up,
// and calls Reject and Refuses.

// Tally is what became of the hits of a request so far. Service.Ingest comes before the first hit.
type Tally struct {
	api.HitsAnswer
	Line int // of the hit that is read, from 1, for messages; the listener counts it up

	may      access.Rights
	recorded *replication.RequestRecorder // of a request with an idempotency key, where other nodes count too
	removals uint64                       // Engine.Removals of the hit's key, before it
	last     api.Code                     // of the line that was rejected last

	stopped    *request.Rejection // why RetryFrom was refused, and all lines after it
	Overloaded int                // lines refused because the journal was behind
	forbidden  int                // lines with keys that the role is not for
	over       int                // lines over a ceiling
	wait       time.Duration      // until there is one again
}

// Reset begins a request anew, for a caller with this access, in the memory that it has.
func (t *Tally) Reset(may access.Rights) {
	*t = Tally{HitsAnswer: api.HitsAnswer{Rejected: t.Rejected[:0]}, may: may}
	if t.Rejected == nil {
		t.Rejected = []api.RejectedLine{} // an empty array in JSON, not null
	}
}

// Reject notes that the hit of Line was not counted, and why.
func (t *Tally) Reject(r *request.Rejection) {
	t.RejectedLines++
	t.last = r.Code
	if len(t.Rejected) < api.MaxRejected {
		t.Rejected = append(t.Rejected, api.RejectedLine{Line: t.Line, Code: r.Code, Message: r.Message})
	}
}

// LastRejected is the code of the line that was rejected last; "": there was none. It is for listeners that can't
// answer with the list.
func (t *Tally) LastRejected() api.Code { return t.last }

var rejectOverloaded = request.Reject(api.CodeOverloaded, "the journal is behind and its buffer is full: send this line and those after it again in a second")

// Refuses reports whether the journal was behind, or the caller's ceiling reached, at a line before, and notes Line as
// refused if so: there is one line to begin again from, whatever became free meanwhile.
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

// Took notes what the engine did with the hit of Line. It returns an error when no further hit can be counted.
func (t *Tally) Took(n uint64, outcome engine.Outcome, err error) error {
	if err != nil {
		var e *engine.Error
		if !errors.As(err, &e) || e.Code == api.CodeClosed {
			return err
		}
		if e.Code == api.CodeOverloaded {
			t.RetryFrom, t.stopped = t.Line, request.Reject(api.CodeOverloaded, e.Message)
			t.Overloaded++
		}
		t.Reject(request.Reject(e.Code, e.Message))
		return nil
	}
	switch outcome {
	case engine.TooLate:
		t.TooLate = add(t.TooLate, n)
	case engine.ForHistory:
		t.History = add(t.History, n)
		t.Counted = add(t.Counted, n)
	case engine.Late:
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

var rejectForbidden = request.Reject(api.CodeForbidden, "role ingest of this identity is not for this key")

// May reports whether the caller's role is for a key, and notes it if not.
func (t *Tally) May(key string) bool { return t.may.Key(key) || t.forbid() }

func (t *Tally) forbid() bool {
	t.forbidden++
	if t.may.Account != nil {
		t.may.Account.Forbid()
	}
	t.Reject(rejectForbidden)
	return false
}

// Admits reports whether the caller may count a hit of a key, and notes why not. A ceiling of hits
// ends the request; one of new keys refuses those alone.
func (t *Tally) Admits(e *engine.Engine, key string) bool {
	if !t.may.Key(key) {
		return t.forbid()
	}
	account := t.may.Account
	if t.recorded != nil {
		t.removals = e.Keyspace().Removals(key)
	}
	if account == nil {
		return true
	}
	if wait, ok := account.TakeHit(); !ok {
		t.RetryFrom, t.stopped = t.Line, request.Reject(api.CodeCeiling, "identity "+account.Name()+" has reached its hits_per_second: send this line and those after it again later")
		t.reached(wait, t.stopped)
		return false
	}
	if account.BoundsNewKeys() && !e.Keyspace().Has(key) {
		if wait, ok := account.TakeNewKey(); !ok {
			t.reached(wait, request.Reject(api.CodeCeiling, "identity "+account.Name()+" has reached its new_keys_per_minute, and this key is new"))
			return false
		}
	}
	account.Counted()
	return true
}

// reached notes that a ceiling refuses the hit of Line.
func (t *Tally) reached(wait time.Duration, r *request.Rejection) {
	t.over++
	t.wait = max(t.wait, wait)
	t.Reject(r)
}

// maxReceiptBytes bounds an answer that is kept for repeats, in bytes of JSON.
const maxReceiptBytes = 8 << 10

// receipt is what is kept of a request: its answer and, if it failed, why. It is JSON, which
// is on disk for ten minutes.
type receipt struct {
	*api.HitsAnswer
	Code   api.Code `json:"code,omitempty"`
	Field  string   `json:"field,omitempty"`
	Detail string   `json:"detail,omitempty"`
}

// Receipt is t and why its request failed, nil if it did not. So that it is small, fewer
// of the rejected lines are listed if they are long ones, in the first answer too.
func (t *Tally) Receipt(failed error) []byte {
	r := receipt{HitsAnswer: &t.HitsAnswer}
	if e, ok := errors.AsType[*api.Error](failed); ok {
		r.Code, r.Field, r.Detail = e.Code, e.Field, e.Message
	}
	for {
		b, err := json.Marshal(r)
		if err != nil {
			panic(err) // strings and numbers only
		}
		if len(b) <= maxReceiptBytes || len(t.Rejected) == 0 {
			return b
		}
		t.Rejected = t.Rejected[:len(t.Rejected)/2]
	}
}

// Recall is the inverse of receipt: it makes t what it was, and returns the error of the first request. err says why it
// can't.
func (t *Tally) Recall(stored []byte) (first, err error) {
	r := receipt{HitsAnswer: &t.HitsAnswer}
	if err := json.Unmarshal(stored, &r); err != nil {
		return nil, err
	}
	if r.Code == "" {
		return nil, nil
	}
	return &api.Error{Code: r.Code, Field: r.Field, Message: r.Detail, Hits: &t.HitsAnswer}, nil
}

// Verdict is the error that the request ends with: see Service.Verdict.
func (t *Tally) Verdict(end error) *api.Error {
	if end == nil && t.Counted > 0 {
		return nil
	}
	var broken *api.Error
	switch {
	case errors.As(end, &broken):
		e := *broken
		if t.Counted > 0 {
			e.Message += fmt.Sprintf("; the %d hits before that were counted", t.Counted)
		}
		return &e
	case end != nil:
		return request.As(end)
	case t.RetryFrom > 0:
		return &api.Error{Code: t.stopped.Code, RetryAfter: t.wait, Message: "nothing was counted: " + t.stopped.Message}
	case t.forbidden > 0 && t.forbidden == t.RejectedLines:
		return &api.Error{Code: api.CodeForbidden, Field: "key", Message: "nothing was counted: " + t.Rejected[0].Message}
	case t.over > 0 && t.over == t.RejectedLines:
		return &api.Error{Code: api.CodeCeiling, RetryAfter: t.wait, Message: "nothing was counted: " + t.Rejected[0].Message}
	case t.RejectedLines > 0:
		first := t.Rejected[0]
		what := fmt.Sprintf("none of the %d lines could be counted", t.RejectedLines)
		if t.RejectedLines == 1 {
			what = "the hit could not be counted"
		}
		return &api.Error{Code: api.CodeNothingCounted, Message: fmt.Sprintf("%s; line %d: %s", what, first.Line, first.Message)}
	case t.TooLate > 0:
		what := fmt.Sprintf("all %d hits are", t.TooLate)
		if t.TooLate == 1 {
			what = "the hit is"
		}
		return &api.Error{Code: api.CodeTooLate, Message: what + " older than what the server keeps (--retention, with history --history-keep)"}
	}
	return &api.Error{Code: api.CodeEmptyBody, Message: "the body has no hits: send lines `key [n [at]]`, NDJSON, or JSON"}
}
