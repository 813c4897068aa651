package client

import (
	"crypto/rand"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client/internal/sums"
)

// batch is lines that are sent together, under one idempotency key. Its body is the same in every
// attempt.
type batch struct {
	epoch    uint64 // when its lines were taken from the table
	lines    []sums.Line
	key      string
	attempts int
	doubtful time.Time // when an attempt first got no answer; zero: none did
}

func newBatch(epoch uint64, lines []sums.Line) *batch {
	return &batch{epoch: epoch, lines: lines, key: rand.Text()}
}

// body writes the lines into a buffer.
func (b *batch) body(to []byte) []byte {
	for i := range b.lines {
		l := &b.lines[i]
		to = appendHit(to, Hit{l.Key, l.N, time.Unix(l.Second, 0)})
	}
	return to
}

func (b *batch) hits() uint64 { return hitsOf(b.lines) }

func hitsOf(lines []sums.Line) (n uint64) {
	for i := range lines {
		n += lines[i].N
	}
	return n
}

// cutLines cuts lines into batches that servers take by default.
func cutLines(epoch uint64, lines []sums.Line) (list []*batch) {
	for len(lines) > 0 {
		n, bytes := 0, 0
		for n < len(lines) && n < maxLines && bytes < maxBody {
			bytes += len(lines[n].Key) + 64 // names, numbers
			n++
		}
		list = append(list, newBatch(epoch, lines[:n:n]))
		lines = lines[n:]
	}
	return list
}

// outcome is what an attempt to send a batch came to.
type outcome struct {
	settled bool // these lines are done: answer says how
	answer  api.HitsAnswer
	rest    []sums.Line // beside them: to be sent as batches of their own, for the server took none of them
	again   bool        // nothing of it was counted by this attempt: any node may be sent it
	err     error       // for Notify; nil: all is well
	refused *Error      // with the pause that the server asks for
	closing bool        // the attempt began after Close
}

// judge says what the end of an attempt means. Neither settled nor again, the batch is in doubt.
func (b *batch) judge(text []byte, err error) (o outcome) {
	o.err = err
	switch {
	case err == nil:
		if o.err = decode(text, &o.answer); o.err != nil {
			return o // something else than a Weir server, which may stand before one
		}
	case neverSent(err):
		o.again = true
		return o
	case !asError(err, &o.refused):
		return o
	case o.refused.tooLarge() && len(b.lines) > 1:
		o.rest, o.err = b.lines, nil
		return o
	case !o.refused.tookNothing():
		return o
	default:
		if o.refused.temporary() || decode(text, &o.answer) != nil || !o.refused.final(&o.answer) {
			o.again = true
			return o
		}
	}
	o.settled = true
	if from := o.answer.RetryFrom; from > 1 && from <= len(b.lines) {
		o.rest = b.lines[from-1:]
		o.refused = &Error{Code: api.CodeOverloaded, After: time.Second}
	}
	return o
}

// tooLarge tells whether the server takes smaller batches, and counted none of this one.
func (e *Error) tooLarge() bool {
	return e.Code == api.CodeTooManyLines || e.Code == api.CodeBodyTooLarge
}

// final tells whether the refusal is about what the hits are, so that no further attempt
// ends otherwise. Who may send hits, and what a server is set to, may change.
func (e *Error) final(a *api.HitsAnswer) bool {
	switch e.Code {
	case api.CodeNothingCounted, api.CodeTooLate, api.CodeTooManyLines, api.CodeBodyTooLarge, api.CodeInvalidKey:
		return true
	}
	return a.RejectedLines > 0
}
