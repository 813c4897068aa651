package route

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/journal/checks"
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
// A question is its kind, 1 byte, and:
//
//	1 count   key, at (signed s), ns, window s, up to        and of the key *, set
//	2 series  key, from (signed s), to (signed s), step s, up to   and of the key *, set
//	3 top     at (signed s), window s, n, prefix, up to, set
//	4 keys    n, prefix, after, up to, set
//	5 delete  key, until (signed Unix ms)
//	6 keys of a limit  record of the limit (weir.KeyedLimit.Record), n, set
//	7 decide  a checks.Question
//	up to     the message of the journal that must have been applied, 0: none
//	set       a bit for each partition, the lowest of the first byte first
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
	b = append(b, byte(q.kind))
	switch q.kind {
	case kindCount:
		b = wire.AppendText(b, q.key)
		b = binary.AppendVarint(b, q.at.Unix())
		b = binary.AppendUvarint(b, uint64(q.at.Nanosecond()))
		b = binary.AppendUvarint(b, uint64(q.seconds()))
	case kindSeries:
		b = wire.AppendText(b, q.key)
		b = binary.AppendVarint(b, q.from)
		b = binary.AppendVarint(b, q.to)
		b = binary.AppendUvarint(b, uint64(q.seconds()))
	case kindTop:
		b = binary.AppendVarint(b, q.at.Unix())
		b = binary.AppendUvarint(b, uint64(q.seconds()))
		b = binary.AppendUvarint(b, uint64(q.n))
		b = wire.AppendText(b, q.prefix)
	case kindKeys:
		b = binary.AppendUvarint(b, uint64(q.n))
		b = wire.AppendText(b, q.prefix)
		b = wire.AppendText(b, q.after)
	case kindDelete:
		b = wire.AppendText(b, q.key)
		b = binary.AppendVarint(b, q.until)
	case kindLimitKeys:
		b = wire.AppendText(b, q.limit)
		b = binary.AppendUvarint(b, uint64(q.n))
	case kindDecide:
		b = q.decide.Append(b)
	}
	if q.kind <= kindKeys {
		b = binary.AppendUvarint(b, q.upTo)
	}
	return appendSet(b, q.in)
}

// appendSet appends the words of a set, which are as many as both sides know.
func appendSet(b []byte, s weir.PartitionSet) []byte {
	for _, word := range s {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

func readSet(r *wire.Reader, partitions int) weir.PartitionSet {
	s := weir.NewPartitionSet(partitions)
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
func readQuestion(r *wire.Reader, partitions int) (q question) {
	q.kind = kind(r.Byte())
	switch q.kind {
	case kindCount:
		q.key = r.Text(weir.MaxKeyBytes)
		q.at = time.Unix(r.Varint(), int64(r.AtMost(uint64(time.Second-1))))
		q.window = readWindow(r)
	case kindSeries:
		q.key = r.Text(weir.MaxKeyBytes)
		q.from, q.to = r.Varint(), r.Varint()
		q.window = readWindow(r)
		if q.to-q.from < 0 || q.points() > weir.MaxPoints {
			r.Fail()
		}
	case kindTop:
		q.at = time.Unix(r.Varint(), 0)
		q.window = readWindow(r)
		q.n = int(r.AtMost(weir.MaxList))
		q.prefix = r.Text(maxFilter)
	case kindKeys:
		q.n = int(r.AtMost(weir.MaxList))
		q.prefix, q.after = r.Text(maxFilter), r.Text(maxFilter)
	case kindDelete:
		q.key, q.until = r.Text(weir.MaxKeyBytes), r.Varint()
	case kindLimitKeys:
		q.limit = r.Text(r.Len())
		q.n = int(r.AtMost(weir.MaxList))
	case kindDecide:
		q.decide = checks.Read(r)
	default:
		r.Fail()
	}
	if q.kind <= kindKeys {
		q.upTo = r.Uvarint()
	}
	if q.wide() {
		q.in = readSet(r, partitions)
	}
	return q
}

// readWindow reads whole seconds, at least one.
func readWindow(r *wire.Reader) time.Duration {
	seconds := r.AtMost(uint64(weir.MaxWindow / time.Second))
	if seconds == 0 {
		r.Fail()
		return time.Second
	}
	return time.Duration(seconds) * time.Second
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
		one := wire.NewReader(r.Block())
		q := readQuestion(one, partitions)
		if !one.Done() || q.class() != req.class {
			return req, errWire
		}
		req.questions = append(req.questions, q)
	}
	if !r.Done() {
		return req, errWire
	}
	return req, nil
}
