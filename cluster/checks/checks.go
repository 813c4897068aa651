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

// Question asks another node to take or to peek.
type Question struct {
	Take   bool
	Checks []Check // 1 to weir.MaxChecks
}

// Check is a weir.Check with the record of its limit.
type Check struct {
	Limit, Key string
	N          uint64
	Shadow     bool
}

// Answer is what an engine decided.
type Answer struct {
	Allowed  bool
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

// Takes tells whether an answer of yes has used anything.
func (q Question) Takes() bool {
	return q.Take && slices.ContainsFunc(q.Checks, func(c Check) bool { return c.N > 0 })
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
	if q.Take {
		a.Allowed, err = e.TakeAll(asked, a.Verdicts)
	} else {
		a.Allowed, err = e.PeekAll(asked, a.Verdicts)
	}
	return a, err
}

// Append appends a question, numbers as unsigned varints, texts with their length before
// them:
//
//	1 to take, 0 to ask only
//	checks: how many, then each: record of the limit (internal/limits), key, n,
//	1 if its verdict denies nothing
func (q Question) Append(b []byte) []byte {
	b = wire.AppendBool(b, q.Take)
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
	q.Take = r.Bool()
	count := r.AtMost(weir.MaxChecks)
	if count == 0 {
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
func (a Answer) Append(b []byte) []byte {
	b = wire.AppendBool(b, a.Allowed)
	b = binary.AppendUvarint(b, uint64(len(a.Verdicts)))
	for _, v := range a.Verdicts {
		flags := byte(0)
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
	}
	return a
}

// readDuration reads ns, as many as there may be.
func readDuration(r *wire.Reader) time.Duration { return time.Duration(r.AtMost(1<<63 - 1)) }
