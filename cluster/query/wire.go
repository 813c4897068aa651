package query

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// A request, one message to weir.ask.<id>. Numbers are unsigned varints, signed ones
// zigzag, texts and questions have their length before them:
//
//	+---+-------+------------+-----+-----------+------------+-----+
//	| 2 | class | partitions | ttl | questions | question 1 | ... |
//	+---+-------+------------+-----+-----------+------------+-----+
//	class       0: counts and deletions, 1: series and lists, 2: decisions
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
	maxFilter = weir.MaxKeyBytes + 1
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
