package query

import (
	"encoding/binary"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/wire"
)

// The answers to a request are one text, cut into as many messages as it needs:
//
//	+---+--------+------+------+-------+
//	| 1 | status | part | last | bytes |
//	+---+--------+------+------+-------+
//	status  0: answers; 1: the request is not understood, and the bytes say why
//	part    from 0, without a gap
//	last    1 in the last part
//
//	+-------+------+---------------+-----+---------+----------+-----+
//	| as_of | late | name 1, since | ... | answers | answer 1 | ... |
//	+-------+------+---------------+-----+---------+----------+-----+
//	as_of, since  signed Unix ms
//	late          how many follow
//	answers       as many as questions; each begins with one byte:
//
//	0 given     what the question's kind has (append of its result, in its file)
//	1 an error  code, field, message
//	2 not held  of a wide question the set of what the node holds
const (
	statusAnswers, statusRefused = 0, 1

	answerGiven, answerError, answerNotHeld = 0, 1, 2
)

const (
	// maxAnswers is how long the text of one request may become: four lists of
	// the longest keys have some 22 MiB.
	maxAnswers = 32 << 20

	// maxWhy bounds the texts of an error, and maxName that of a node.
	maxWhy, maxName = 1 << 10, 256

	// maxLate is how many nodes may be late.
	maxLate = 10_000
)

// appendPart begins a message of answers; its bytes follow.
func appendPart(b []byte, status byte, part int, last bool) []byte {
	b = append(b, wireVersion, status)
	b = binary.AppendUvarint(b, uint64(part))
	return wire.AppendBool(b, last)
}

// partOf is one message of answers.
type partOf struct {
	part  uint64
	last  bool
	bytes []byte // of the message
}

// errRefused is of a request that was not understood: nothing of it was done.
type errRefused string

func (e errRefused) Error() string { return string(e) }

func readPart(b []byte) (p partOf, err error) {
	r := wire.NewReader(b)
	if version := r.Byte(); version != wireVersion && !r.Failed() {
		return p, errVersion
	}
	status := r.Byte()
	p.part, p.last = r.Uvarint(), r.Bool()
	p.bytes = r.Bytes(r.Len())
	switch {
	case r.Failed():
		return p, errWire
	case status == statusAnswers:
		return p, nil
	case status == statusRefused:
		return p, errRefused(clip(string(p.bytes), maxWhy))
	}
	return p, errWire
}

func appendFresh(b []byte, f Fresh) []byte {
	b = binary.AppendVarint(b, f.AsOf.UnixMilli())
	late := f.Late[:min(len(f.Late), maxLate)]
	b = binary.AppendUvarint(b, uint64(len(late)))
	for _, l := range late {
		b = wire.AppendText(b, clip(l.Node, maxName))
		b = binary.AppendVarint(b, l.Since.UnixMilli())
	}
	return b
}

func readFresh(r *wire.Reader) (f Fresh) {
	f.AsOf = time.UnixMilli(r.Varint())
	n := r.Count()
	if n > maxLate {
		r.Fail()
	}
	for range n {
		if r.Failed() {
			return Fresh{}
		}
		f.Late = append(f.Late, Late{r.Text(maxName), time.UnixMilli(r.Varint())})
	}
	return f
}

func clip(s string, most int) string { return s[:min(len(s), most)] }

// append appends an answer.
func (a *answer) append(b []byte) []byte {
	if a.notHeld() {
		return appendSet(append(b, answerNotHeld), a.held)
	}
	if a.err != nil {
		b = wire.AppendText(append(b, answerError), clip(string(a.err.Code), maxWhy))
		b = wire.AppendText(b, clip(a.err.Field, maxWhy))
		return wire.AppendText(b, clip(a.err.Message, maxWhy))
	}
	return a.result.append(append(b, answerGiven))
}

// readAnswer reads the answer to q. What does not fit the question is refused.
func readAnswer(r *wire.Reader, q *question, partitions int) (a answer) {
	switch r.Byte() {
	case answerGiven:
		a.result = q.read(r)
	case answerError:
		a.err = &weir.Error{Code: weir.Code(r.Text(maxWhy)), Field: r.Text(maxWhy), Message: r.Text(maxWhy)}
		if a.notHeld() || a.err.Code == "" {
			r.Fail()
		}
	case answerNotHeld:
		a.err = errMoved
		if q.wide() {
			a.held = readSet(r, partitions)
		}
	default:
		r.Fail()
	}
	return a
}

// errMoved is of a node that was asked and does not hold the partition.
var errMoved = &weir.Error{Code: weir.CodeNotHeld, Field: "key", Message: "it does not hold the partition"}

// readAnswers reads the text of all parts, to these questions.
func readAnswers(b []byte, questions []*question, partitions int) (answers []answer, f Fresh, err error) {
	r := wire.NewReader(b)
	f = readFresh(r)
	if n := r.Count(); n != len(questions) {
		return nil, Fresh{}, errWire
	}
	answers = make([]answer, len(questions))
	for i, q := range questions {
		answers[i] = readAnswer(r, q, partitions)
	}
	if !r.Done() {
		return nil, Fresh{}, errWire
	}
	return answers, f, nil
}
