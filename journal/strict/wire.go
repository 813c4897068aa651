package strict

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-counter/weir"
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
	b := []byte{wireVersion, bit(q.take)}
	b = binary.AppendUvarint(b, uint64(len(q.checks)))
	for _, c := range q.checks {
		b = appendText(b, c.record)
		b = appendText(b, c.key)
		b = binary.AppendUvarint(b, c.n)
		b = append(b, bit(c.shadow))
	}
	return b
}

func decodeQuestion(b []byte) (q question, err error) {
	r := wireReader{rest: b}
	if r.byte() != wireVersion {
		return q, errWire
	}
	q.take = r.byte() == 1
	count := r.uvarint()
	if count < 1 || count > weir.MaxChecks {
		return q, fmt.Errorf("%d checks: %w", count, errWire)
	}
	for range count {
		q.checks = append(q.checks, questionCheck{r.text(), r.text(), r.uvarint(), r.byte() == 1})
	}
	return q, r.end()
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
		b := appendText([]byte{wireVersion, 1}, string(of.Code))
		return appendText(appendText(b, of.Field), of.Message)
	}
	b := []byte{wireVersion, 0, bit(a.allowed)}
	b = binary.AppendUvarint(b, uint64(len(a.verdicts)))
	for _, v := range a.verdicts {
		b = append(b, bit(v.Allowed)|bit(v.Never)<<1)
		b = binary.AppendUvarint(b, v.Remaining)
		b = binary.AppendUvarint(b, uint64(v.RetryAfter))
		b = binary.AppendUvarint(b, uint64(v.Reset))
	}
	return b
}

func decodeAnswer(b []byte) (a answer, err error) {
	r := wireReader{rest: b}
	if r.byte() != wireVersion {
		return a, errWire
	}
	if r.byte() == 1 {
		of := &weir.Error{Code: weir.Code(r.text()), Field: r.text(), Message: r.text()}
		return answer{err: of}, r.end()
	}
	a.allowed = r.byte() == 1
	count := r.uvarint()
	if count > weir.MaxChecks {
		return a, errWire
	}
	for range count {
		flags := r.byte()
		a.verdicts = append(a.verdicts, weir.Verdict{
			Allowed: flags&1 != 0, Never: flags&2 != 0, Remaining: r.uvarint(),
			RetryAfter: time.Duration(r.uvarint()), Reset: time.Duration(r.uvarint()),
		})
	}
	return a, r.end()
}

func bit(is bool) byte {
	if is {
		return 1
	}
	return 0
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// wireReader takes values off rest until the first that is cut.
type wireReader struct {
	rest   []byte
	failed bool
}

func (r *wireReader) fail() { r.rest, r.failed = nil, true }

func (r *wireReader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *wireReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *wireReader) text() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

func (r *wireReader) end() error {
	if r.failed || len(r.rest) > 0 {
		return errWire
	}
	return nil
}
