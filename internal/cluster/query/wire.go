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

// kind is one kind of question, with what it asks. Each has a file of its own, with all
// that is particular to it: what callers call, its bytes, how an engine answers, and how
// answers about different partitions add up.
type kind interface {
	// number is the kind's, on the wire.
	number() byte

	// class says whom it may wait for.
	class() class

	// keyed is the key that is asked about; engine.AllKeys: the sum of all, "": many, as in a list.
	keyed() string

	// wide tells whether it is about the keys of all partitions. Such a question goes to as
	// many nodes as hold them, to each with its set; any other to one that holds the key.
	wide() bool

	// counts tells whether the answer is made of hits: only then can it be asked for
	// after a message of the journal (question.upTo).
	counts() bool

	// exact tells whether the bytes say all: a window with a part of a second would pass
	// for another.
	exact() bool

	// append appends its bytes, after its number.
	append(b []byte) []byte

	// answer lets an engine answer, about a set of partitions if it is wide: nil is all.
	answer(e *engine.Engine, in replication.PartitionSet) (result, error)

	// read reads a result from another node. What does not fit the question is refused.
	read(r *wire.Reader) result
}

// result is what is said to a question of one kind.
type result interface {
	append(b []byte) []byte

	// merge adds a result of the same question about other partitions.
	merge(q kind, more result) result

	// memory is how many bytes it takes beside a constant.
	memory() int
}

// kinds reads what kind.append wrote, by number.
var kinds = [...]func(r *wire.Reader) kind{
	1: readCount, 2: readSeries, 3: readTop, 4: readKeys, 5: readDeletion,
}

// change is a kind that changes a key: what was remembered of the key is not given again.
type change interface {
	kind

	// expires sets when who asks stops waiting. After that it must not be done.
	expires(unixMilli int64)

	// expired tells whether that is over.
	expired(unixMilli int64) bool
}

// class separates the questions that are answered at once from those that go through
// many keys or points: none waits for another.
type class byte

const (
	quick class = iota
	scan
	classes
)

// question is one of any kind.
type question struct {
	kind
	in   replication.PartitionSet // of the wide ones: the partitions that are asked about
	upTo uint64                   // of those that count: a message of the journal that the node must have applied
}

// answer is what is said to a question: a result of its kind, or err.
type answer struct {
	result result
	err    *engine.Error
	held   replication.PartitionSet // with CodeNotHeld: what the node holds, of a wide question
}

func (a *answer) notHeld() bool { return a.err != nil && a.err.Code == engine.CodeNotHeld }

// answerOf lets an engine answer.
func answerOf(e *engine.Engine, q *question) answer {
	result, err := q.kind.answer(e, q.in)
	if err == nil {
		return answer{result: result}
	}
	a := answer{err: asError(err)}
	if a.notHeld() && q.wide() {
		a.held = e.HeldPartitions()
	}
	return a
}

func asError(err error) *engine.Error {
	var of *engine.Error
	if errors.As(err, &of) {
		return of
	}
	// Engines have no other errors but of records of limits that they do not know, as a
	// newer one may: another holder may.
	return &engine.Error{Code: engine.CodeNotHeld, Field: "key", Message: err.Error()}
}

// A request, one message to weir.ask.<id>. Numbers are unsigned varints, signed ones
// zigzag, texts and questions have their length before them:
//
//	+---+-------+------------+-----+-----------+------------+-----+
//	| 2 | class | partitions | ttl | questions | question 1 | ... |
//	+---+-------+------------+-----+-----------+------------+-----+
//	class       0: counts and deletions, 1: series and lists
//	partitions  that the engine has: sets and hashes mean the same on both sides
//	ttl         ms; nobody waits for the answers longer after they arrived
//	questions   how many follow, 1 to 4096
//
// A question is its kind's number, 1 byte, what the kind has (append in its file), and:
//
//	up to  the message of the journal that must have been applied, 0: none; of kinds that count hits
//	set    a bit for each partition, the lowest of the first byte first; of wide ones
//
// Any other layout of questions or answers is another version: 2 has "up to".
const wireVersion = 2

const (
	// maxQuestions are those of one request; of scans, whose answers may be long,
	// there are fewer.
	maxQuestions, maxScans = 4096, 4

	// maxMessage is how much of questions or answers one message has: with what is
	// around it far below NATS' limit of 1 MiB.
	maxMessage = 512 << 10

	// maxFilter is the longest prefix or after: of a longer one, no key can match or
	// come between what is cut and the rest.
	maxFilter = engine.MaxKeyBytes + 1
)

var (
	errWire    = errors.New("could not decode its message")
	errVersion = errors.New("it uses another version of the query protocol: run the same version of Weir on all nodes")
)

// most is how many questions one request of a class has.
func (c class) most() int {
	if c == scan {
		return maxScans
	}
	return maxQuestions
}

// append appends a question, its set only if there is one.
func (q *question) append(b []byte) []byte {
	b = q.kind.append(append(b, q.number()))
	if q.counts() {
		b = binary.AppendUvarint(b, q.upTo)
	}
	return appendSet(b, q.in)
}

// appendSet appends the words of a set, which are as many as both sides know.
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

// readQuestion reads what append wrote.
func readQuestion(r *wire.Reader, partitions int) (q question, ok bool) {
	number := int(r.Byte())
	if r.Failed() || number >= len(kinds) || kinds[number] == nil {
		return q, false
	}
	q.kind = kinds[number](r)
	if q.counts() {
		q.upTo = r.Uvarint()
	}
	if q.wide() {
		q.in = readSet(r, partitions)
	}
	return q, r.Done()
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

// maxTTL is longer than anybody waits.
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
		a.err = &engine.Error{Code: engine.Code(r.Text(maxWhy)), Field: r.Text(maxWhy), Message: r.Text(maxWhy)}
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
var errMoved = &engine.Error{Code: engine.CodeNotHeld, Field: "key", Message: "it does not hold the partition"}

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
