package strict

import (
	"errors"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/checks"
	"github.com/weir-counter/weir/internal/wire"
)

// A question is a byte, the version 1, and a checks.Question. An answer, texts with
// their length before them:
//
//	byte 0     version, 1
//	byte 1     0: decided, or 1: an error
//	           decided: a checks.Answer
//	           an error: code, field, message
//
// A question whose first byte is lenderVersion is a Lender's, whose own bytes follow; so is its answer.
const (
	wireVersion   = 1
	lenderVersion = 2
)

var errWire = errors.New("could not decode the message: check that all nodes run the same version of Weir")

func encode(q checks.Question) []byte { return q.Append([]byte{wireVersion}) }

func decodeQuestion(b []byte) (q checks.Question, err error) {
	r := wire.NewReader(b)
	if r.Byte() != wireVersion {
		return q, errWire
	}
	q = checks.Read(r)
	return q, done(r)
}

// answer is a decision, or why there is none.
type answer struct {
	checks.Answer
	err error
}

func (a answer) encode() []byte {
	if a.err == nil {
		return a.Append([]byte{wireVersion, 0})
	}
	of := &weir.Error{Code: weir.CodeInvalidLimit, Field: "limit", Message: a.err.Error()}
	errors.As(a.err, &of)
	b := wire.AppendText([]byte{wireVersion, 1}, string(of.Code))
	return wire.AppendText(wire.AppendText(b, of.Field), of.Message)
}

// decodeAnswer reads the answer to a question of so many checks.
func decodeAnswer(b []byte, asked int) (a answer, err error) {
	r := wire.NewReader(b)
	if r.Byte() != wireVersion {
		return a, errWire
	}
	if r.Bool() {
		a.err = &weir.Error{Code: weir.Code(r.Text(len(b))), Field: r.Text(len(b)), Message: r.Text(len(b))}
	} else {
		a.Answer = checks.ReadAnswer(r, asked)
	}
	return a, done(r)
}

// done tells whether all was read.
func done(r *wire.Reader) error {
	if !r.Done() {
		return errWire
	}
	return nil
}
