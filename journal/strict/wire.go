package strict

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/journal/varint"
)

// A question, all numbers as unsigned varints, texts with their length before them:
//
//	byte 0     version, 1
//	byte 1     1 to take, 0 to ask only
//	           checks: how many, then each: record of the limit (weir,
//	           KeyedLimit.Record), key, n, 1 if its verdict denies nothing
//
// An answer:
//
//	byte 0     version, 1
//	byte 1     0: decided, or 1: an error
//	           decided: 1 if allowed; verdicts: how many, then each: 1 for allowed
//	           + 2 for never, remaining, retry after and reset in ns
//	           an error: code, field, message
const wireVersion = 1

var errWire = errors.New("not understood: nodes of different versions?")

type question struct {
	take   bool
	checks []questionCheck
}

type questionCheck struct {
	record, key string
	n           uint64
	shadow      bool
}

func newQuestion(checks []weir.Check, take bool) question {
	q := question{take: take, checks: make([]questionCheck, len(checks))}
	for i, c := range checks {
		q.checks[i] = questionCheck{c.Limit.Record(), c.Key, c.N, c.Shadow}
	}
	return q
}

// takes tells whether an answer of yes has used anything.
func (q question) takes() bool {
	return q.take && slices.ContainsFunc(q.checks, func(c questionCheck) bool { return c.n > 0 })
}

func (q question) encode() []byte {
	b := varint.AppendBool([]byte{wireVersion}, q.take)
	b = binary.AppendUvarint(b, uint64(len(q.checks)))
	for _, c := range q.checks {
		b = varint.AppendText(b, c.record)
		b = varint.AppendText(b, c.key)
		b = binary.AppendUvarint(b, c.n)
		b = varint.AppendBool(b, c.shadow)
	}
	return b
}

func decodeQuestion(b []byte) (q question, err error) {
	r := varint.NewReader(b)
	if r.Byte() != wireVersion {
		return q, errWire
	}
	q.take = r.Byte() == 1
	count := r.Uvarint()
	if count < 1 || count > weir.MaxChecks {
		return q, fmt.Errorf("%d checks: %w", count, errWire)
	}
	for range count {
		q.checks = append(q.checks, questionCheck{r.Text(len(b)), r.Text(len(b)), r.Uvarint(), r.Byte() == 1})
	}
	return q, done(r)
}

// answer is a decision, or why there is none.
type answer struct {
	allowed  bool
	verdicts []weir.Verdict
	err      error
}

func (a answer) encode() []byte {
	if a.err != nil {
		of := &weir.Error{Code: weir.CodeInvalidLimit, Field: "limit", Message: a.err.Error()}
		errors.As(a.err, &of)
		b := varint.AppendText([]byte{wireVersion, 1}, string(of.Code))
		return varint.AppendText(varint.AppendText(b, of.Field), of.Message)
	}
	b := varint.AppendBool([]byte{wireVersion, 0}, a.allowed)
	b = binary.AppendUvarint(b, uint64(len(a.verdicts)))
	for _, v := range a.verdicts {
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

func decodeAnswer(b []byte) (a answer, err error) {
	r := varint.NewReader(b)
	if r.Byte() != wireVersion {
		return a, errWire
	}
	if r.Byte() == 1 {
		of := &weir.Error{Code: weir.Code(r.Text(len(b))), Field: r.Text(len(b)), Message: r.Text(len(b))}
		return answer{err: of}, done(r)
	}
	a.allowed = r.Byte() == 1
	count := r.Uvarint()
	if count > weir.MaxChecks {
		return a, errWire
	}
	for range count {
		flags := r.Byte()
		a.verdicts = append(a.verdicts, weir.Verdict{
			Allowed: flags&1 != 0, Never: flags&2 != 0, Remaining: r.Uvarint(),
			RetryAfter: time.Duration(r.Uvarint()), Reset: time.Duration(r.Uvarint()),
		})
	}
	return a, done(r)
}

// done tells whether all was read.
func done(r *varint.Reader) error {
	if !r.Done() {
		return errWire
	}
	return nil
}
