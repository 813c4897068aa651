package query

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// A request, one message to weir.ask.<id>. Numbers are unsigned varints, signed ones
// zigzag, texts and questions have their length before them:
//
//	+---+-------+------------+-----+-----------+------------+-----+
//	| 3 | class | partitions | ttl | questions | question 1 | ... |
//	+---+-------+------------+-----+-----------+------------+-----+
//	class       0: counts and deletions, 1: series and lists
//	partitions  of the engine: sets and hashes mean the same on both sides
//	ttl         ms; the sender waits no longer for the answers
//	questions   how many follow, 1 to 4096
//
// A question is the fields of type question in their order (question.append). Only a wide one ends with its set: a bit for
// each partition, the lowest of the first byte first.
//
// Any other layout of questions or answers is another version.
const wireVersion = 3

const (
	// maxQuestions is how many one request has. maxScans is the same for scans, whose answers may be long.
	maxQuestions, maxScans = 4096, 4

	// maxMessage is how many bytes of questions or answers one message has: far below NATS' limit of 1 MiB.
	maxMessage = 512 << 10

	// maxFilter is the longest prefix or after that is sent. It is longer than any key, so a longer text gives the same
	// answer.
	maxFilter = engine.MaxKeyBytes + 1
)

var (
	errWire    = errors.New("could not decode its message")
	errVersion = errors.New("it uses another version of the query protocol: run the same version of Weir on all nodes")
)

// most returns how many questions one request of a class has.
func (c class) most() int {
	if c == scan {
		return maxScans
	}
	return maxQuestions
}

// appendSet appends the words of a set. Both sides know how many there are.
func appendSet(b []byte, s replication.PartitionSet) []byte {
	for _, word := range s {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

func readSet(r *wire.Reader, partitions int) replication.PartitionSet {
	s := replication.NewPartitionSet(partitions)
	words := r.Bytes(8 * len(s))
	if r.Failed() {
		return s
	}
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(words[8*i:])
	}
	if rest := partitions % 64; rest != 0 && s[len(s)-1]>>rest != 0 {
		r.Fail()
	}
	return s
}

// request is one as it arrives.
type request struct {
	class     class
	ttl       time.Duration
	questions []question
}

// appendRequest begins a request; the encoded questions follow, each as a text.
func appendRequest(b []byte, c class, partitions int, ttl time.Duration, questions int) []byte {
	b = append(b, wireVersion, byte(c))
	b = binary.AppendUvarint(b, uint64(partitions))
	b = binary.AppendUvarint(b, uint64(ttl.Milliseconds()))
	return binary.AppendUvarint(b, uint64(questions))
}

// maxTTL is longer than any caller waits.
const maxTTL = 10 * time.Minute

// readRequest reads a request to an engine of so many partitions.
func readRequest(b []byte, partitions int) (req request, err error) {
	r := wire.NewReader(b)
	if version := r.Byte(); version != wireVersion {
		return req, fmt.Errorf("the query is in version %d, this node knows version %d: run the same version of Weir on all nodes", version, wireVersion)
	}
	req.class = class(r.Byte())
	if theirs := r.Uvarint(); !r.Failed() && theirs != uint64(partitions) {
		return req, fmt.Errorf("the node that asks has %d partitions, this one has %d: give all nodes the same number", theirs, partitions)
	}
	req.ttl = time.Duration(r.AtMost(uint64(maxTTL.Milliseconds()))) * time.Millisecond
	n := r.Count()
	if r.Failed() || req.class >= classes || n < 1 || n > req.class.most() {
		return req, errWire
	}
	req.questions = make([]question, 0, n)
	for range n {
		q, ok := readQuestion(wire.NewReader(r.Block()), partitions)
		if !ok || q.class() != req.class {
			return req, errWire
		}
		req.questions = append(req.questions, q)
	}
	if !r.Done() {
		return req, errWire
	}
	return req, nil
}

// The answers to a request are one text, cut into as many messages as it needs:
//
//	+---+--------+------+------+-------+
//	| 3 | status | part | last | bytes |
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
//	0 given     the result (result.append)
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

	// maxWhy bounds the texts of an error, and maxName the name of a node.
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

// errRefused says that a request was not understood: nothing of it was done.
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

func appendFresh(b []byte, f api.Freshness) []byte {
	b = binary.AppendVarint(b, f.AsOf.UnixMilli())
	late := f.Late[:min(len(f.Late), maxLate)]
	b = binary.AppendUvarint(b, uint64(len(late)))
	for _, l := range late {
		b = wire.AppendText(b, clip(l.Node, maxName))
		b = binary.AppendVarint(b, l.Since.UnixMilli())
	}
	return b
}

func readFresh(r *wire.Reader) (f api.Freshness) {
	f.AsOf.Time = time.UnixMilli(r.Varint())
	n := r.Count()
	if n > maxLate {
		r.Fail()
	}
	for range n {
		if r.Failed() {
			return api.Freshness{}
		}
		f.Late = append(f.Late, api.Late{Node: r.Text(maxName), Since: api.Time{Time: time.UnixMilli(r.Varint())}})
	}
	return f
}

func clip(s string, most int) string { return s[:min(len(s), most)] }

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
		a.err = &engine.Error{Code: api.Code(r.Text(maxWhy)), Field: r.Text(maxWhy), Message: r.Text(maxWhy)}
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

// errMoved says that a node does not hold the partition.
var errMoved = &engine.Error{Code: api.CodeNotHeld, Field: "key", Message: "it does not hold the partition"}

// readAnswers reads the text of all parts, to these questions.
func readAnswers(b []byte, questions []*question, partitions int) (answers []answer, f api.Freshness, err error) {
	r := wire.NewReader(b)
	f = readFresh(r)
	if n := r.Count(); n != len(questions) {
		return nil, api.Freshness{}, errWire
	}
	answers = make([]answer, len(questions))
	for i, q := range questions {
		answers[i] = readAnswer(r, q, partitions)
	}
	if !r.Done() {
		return nil, api.Freshness{}, errWire
	}
	return answers, f, nil
}
