package route

import (
	"errors"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/journal/checks"
)

// kind is what is asked. Its number is on the wire.
type kind byte

const (
	kindCount kind = 1 + iota
	kindSeries
	kindTop
	kindKeys
	kindDelete
	kindLimitKeys
	kindDecide
)

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

// question is one of any kind; fields that its kind does not have are zero.
type question struct {
	kind   kind
	key    string            // count, series, delete; decide: the first of its checks
	in     weir.PartitionSet // of the wide ones: the partitions that are asked about
	at     time.Time         // count, top: the end of the window
	from   int64             // series: Unix seconds
	to     int64
	window time.Duration // count, top; of a series the step
	prefix string        // top, keys
	after  string        // keys
	n      int           // top, keys, limit keys: the longest list
	upTo   uint64        // count, series, top, keys: a message of the journal that the node must have applied
	until  int64         // delete: Unix ms; nobody waits for it after that
	limit  string        // limit keys: its record

	decide checks.Question // decide
}

// wide tells whether a question is about the keys of all partitions.
func (q *question) wide() bool {
	switch q.kind {
	case kindTop, kindKeys, kindLimitKeys:
		return true
	case kindDelete, kindDecide:
		return false
	}
	return q.key == weir.AllKeys
}

func (q *question) class() class {
	switch q.kind {
	case kindCount, kindDelete:
		return quick
	case kindDecide:
		return decision
	}
	return scan
}

// seconds is the window; those that are not whole are never sent.
func (q *question) seconds() int64 { return int64(q.window / time.Second) }

// points is how many a series has.
func (q *question) points() int64 { return (q.to - q.from) / q.seconds() }

// point is number i of them.
func (q *question) point(i int, c weir.Count) weir.Point {
	return weir.Point{At: time.Unix(q.from+int64(i+1)*q.seconds(), 0), Count: c}
}

// answer is what is said to a question: what its kind has, or err.
type answer struct {
	count  weir.Count
	points []weir.Count // of a series
	top    []weir.KeyCount
	keys   []string
	was    bool // delete: the key was there
	uses   []weir.KeyUse

	decided checks.Answer

	err  *weir.Error
	held weir.PartitionSet // with CodeNotHeld: what the node holds, of a wide question
}

func (a *answer) notHeld() bool { return a.err != nil && a.err.Code == weir.CodeNotHeld }

// answerOf lets an engine answer.
func answerOf(e *weir.Engine, q *question) (a answer) {
	var err error
	switch q.kind {
	case kindCount:
		a.count, err = e.Replication().CountIn(q.in, q.at, q.key, q.window)
	case kindSeries:
		var points []weir.Point
		points, err = e.Replication().SeriesIn(q.in, q.key, time.Unix(q.from, 0), time.Unix(q.to, 0), q.window)
		a.points = make([]weir.Count, len(points))
		for i, p := range points {
			a.points[i] = p.Count
		}
	case kindTop:
		a.top, err = e.Replication().TopIn(q.in, q.at, q.window, q.n, q.prefix)
	case kindKeys:
		a.keys, err = e.Replication().KeysIn(q.in, q.prefix, q.after, q.n)
	case kindDelete:
		a.was, err = e.Delete(q.key)
	case kindLimitKeys:
		a.uses, err = limitKeys(e, q)
	case kindDecide:
		a.decided, err = decide(e, q)
	}
	if err == nil {
		return a
	}
	a = answer{err: asError(err)}
	if a.notHeld() && q.wide() {
		a.held = e.Replication().HeldPartitions()
	}
	return a
}

func limitKeys(e *weir.Engine, q *question) ([]weir.KeyUse, error) {
	of, err := e.Replication().LimitOfRecord(q.limit)
	if err != nil {
		return nil, err
	}
	return of.KeysIn(q.in, q.n)
}

// decide lets an engine decide about keys that it holds.
func decide(e *weir.Engine, q *question) (checks.Answer, error) {
	for _, c := range q.decide.Checks {
		if !e.Replication().HoldsKey(c.Key) {
			return checks.Answer{}, errMoved
		}
	}
	return q.decide.Decide(e)
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
