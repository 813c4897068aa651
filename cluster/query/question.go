package query

import (
	"errors"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
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

	// keyed is the key that is asked about; weir.AllKeys: the sum of all, "": many, as in a list.
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
	answer(e *weir.Engine, in replication.PartitionSet) (result, error)

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
	1: readCount, 2: readSeries, 3: readTop, 4: readKeys, 5: readDeletion, 6: readLimitKeys, 7: readDecision,
}

// change is a kind that changes a key: what was remembered of the key is not given again.
type change interface {
	kind

	// expires sets when who asks stops waiting. After that it must not be done.
	expires(unixMilli int64)

	// expired tells whether that is over.
	expired(unixMilli int64) bool
}

// class parts the questions that are answered at once from those that go through
// many keys or points, and from decisions, that requests wait for: none waits for
// another.
type class byte

const (
	quick class = iota
	scan
	decision
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
	err    *weir.Error
	held   replication.PartitionSet // with CodeNotHeld: what the node holds, of a wide question
}

func (a *answer) notHeld() bool { return a.err != nil && a.err.Code == weir.CodeNotHeld }

// answerOf lets an engine answer.
func answerOf(e *weir.Engine, q *question) answer {
	result, err := q.kind.answer(e, q.in)
	if err == nil {
		return answer{result: result}
	}
	a := answer{err: asError(err)}
	if a.notHeld() && q.wide() {
		a.held = replication.Of(e).HeldPartitions()
	}
	return a
}

func asError(err error) *weir.Error {
	var of *weir.Error
	if errors.As(err, &of) {
		return of
	}
	// Engines have no other errors but of records of limits that they do not know, as a
	// newer one may: another holder may.
	return &weir.Error{Code: weir.CodeNotHeld, Field: "key", Message: err.Error()}
}
