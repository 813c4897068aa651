// Package checks carries the checks of limits from the node that was asked to one that
// decides, and its verdicts back.
package checks

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/limits"
	"github.com/weir-counter/weir/internal/wire"
)

// Question asks another node to take, to peek, or to make a change.
type Question struct {
	Take   bool
	Change limits.Change // of the one check's limit and key, with its N; else NoChange
	At     int64         // of the change, in Unix ns; 0: the zero time.Time
	Checks []Check       // 1 to weir.MaxChecks
}

// Check is a weir.Check with the record of its limit.
type Check struct {
	Limit, Key string
	N          uint64
	Shadow     bool
}

// Answer is what an engine decided.
type Answer struct {
	Allowed  bool           // or for a change: there was something
	Freed    uint64         // by a change
	Verdicts []weir.Verdict // as many as the question has checks
}

// Ask makes a question of checks of this node.
func Ask(checks []weir.Check, take bool) Question {
	q := Question{Take: take, Checks: make([]Check, len(checks))}
	for i, c := range checks {
		q.Checks[i] = Check{limits.Record(c.Limit), c.Key, c.N, c.Shadow}
	}
	return q
}

// AskChange makes a question of a change to a key of a limit.
func AskChange(c limits.Change, of weir.Check, at time.Time) Question {
	q := Ask([]weir.Check{of}, false)
	if q.Change = c; !at.IsZero() {
		q.At = at.UnixNano()
	}
	return q
}

// Changes tells whether an answer has changed something, that the journal must have.
func (q Question) Changes(a Answer) bool {
	return q.Change != limits.NoChange || a.Allowed && q.Takes()
}

// Takes tells whether an answer of yes has used anything.
func (q Question) Takes() bool {
	return q.Change != limits.NoChange || q.Take && slices.ContainsFunc(q.Checks, func(c Check) bool { return c.N > 0 })
}

// Decide lets an engine decide. An error is a *weir.Error, or of a record that is none.
func (q Question) Decide(e *weir.Engine) (a Answer, err error) {
	asked := make([]weir.Check, len(q.Checks))
	for i, c := range q.Checks {
		of, err := limits.Of(e).LimitOfRecord(c.Limit)
		if err != nil {
			return Answer{}, err
		}
		asked[i] = weir.Check{Limit: of, Key: c.Key, N: c.N, Shadow: c.Shadow}
	}
	a.Verdicts = make([]weir.Verdict, len(asked))
	if q.Change != limits.NoChange {
		return q.make(asked[0])
	}
	if q.Take {
		a.Allowed, err = e.TakeAll(asked, a.Verdicts)
	} else {
		a.Allowed, err = e.PeekAll(asked, a.Verdicts)
	}
	return a, err
}

// make lets an engine make a change.
func (q Question) make(of weir.Check) (a Answer, err error) {
	var at time.Time
	if q.At != 0 {
		at = time.Unix(0, q.At)
	}
	made, err := q.Change.Make(of.Limit, of.Key, of.N, at)
	return Answer{Allowed: made.Was, Freed: made.Freed, Verdicts: []weir.Verdict{made.After}}, err
}

// Changed is the answer to a question of a change.
func (a Answer) Changed() limits.Changed {
	return limits.Changed{Was: a.Allowed, Freed: a.Freed, After: a.Verdicts[0]}
}

// Append appends a question, numbers as unsigned varints, texts with their length before
// them:
//
//	0 to ask only, 1 to take, or 1 + a change, and its time in Unix ns, signed
//	checks: how many, then each: record of the limit (internal/limits), key, n,
//	1 if its verdict denies nothing
func (q Question) Append(b []byte) []byte {
	switch {
	case q.Change != limits.NoChange:
		b = binary.AppendVarint(append(b, 1+byte(q.Change)), q.At)
	default:
		b = wire.AppendBool(b, q.Take)
	}
	b = binary.AppendUvarint(b, uint64(len(q.Checks)))
	for _, c := range q.Checks {
		b = wire.AppendText(b, c.Limit)
		b = wire.AppendText(b, c.Key)
		b = binary.AppendUvarint(b, c.N)
		b = wire.AppendBool(b, c.Shadow)
	}
	return b
}

// Read reads what Append wrote.
func Read(r *wire.Reader) (q Question) {
	switch what := r.Byte(); {
	case what > byte(limits.Changes):
		r.Fail()
	case what > 1:
		q.Change, q.At = limits.Change(what-1), r.Varint()
	default:
		q.Take = what == 1
	}
	count := r.AtMost(weir.MaxChecks)
	if count == 0 || q.Change != limits.NoChange && count > 1 {
		r.Fail()
	}
	for range count {
		q.Checks = append(q.Checks, Check{r.Text(r.Len()), r.Text(weir.MaxKeyBytes), r.Uvarint(), r.Bool()})
	}
	return q
}

// Append appends an answer:
//
//	1 if allowed
//	verdicts: how many, then each: 1 for allowed + 2 for never, remaining, retry after
//	and reset in ns
//
// The first verdict may have 4 as well: it is followed by how many were freed.
func (a Answer) Append(b []byte) []byte {
	b = wire.AppendBool(b, a.Allowed)
	b = binary.AppendUvarint(b, uint64(len(a.Verdicts)))
	for i, v := range a.Verdicts {
		flags := byte(0)
		if a.Freed > 0 && i == 0 {
			flags |= 4
		}
		if v.Allowed {
			flags |= 1
		}
		if v.Never {
			flags |= 2
		}
		b = append(b, flags)
		b = binary.AppendUvarint(b, v.Remaining)
		b = binary.AppendUvarint(b, uint64(v.RetryAfter))
		b = binary.AppendUvarint(b, uint64(v.Reset))
		if flags&4 != 0 {
			b = binary.AppendUvarint(b, a.Freed)
		}
	}
	return b
}

// ReadAnswer reads the answer to a question of so many checks.
func ReadAnswer(r *wire.Reader, checks int) (a Answer) {
	a.Allowed = r.Bool()
	if count := r.Uvarint(); count != uint64(checks) {
		r.Fail()
		return Answer{}
	}
	a.Verdicts = make([]weir.Verdict, checks)
	for i := range a.Verdicts {
		flags := r.Byte()
		a.Verdicts[i] = weir.Verdict{
			Allowed: flags&1 != 0, Never: flags&2 != 0, Remaining: r.Uvarint(),
			RetryAfter: readDuration(r), Reset: readDuration(r),
		}
		if flags&4 != 0 {
			a.Freed = r.Uvarint()
		}
	}
	return a
}

// readDuration reads ns, as many as there may be.
func readDuration(r *wire.Reader) time.Duration { return time.Duration(r.AtMost(1<<63 - 1)) }
