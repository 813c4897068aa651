package query

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/tracing"
	"github.com/weir-counter/weir/internal/wire"
)

// kind is what a question asks for.
type kind byte

const (
	count  kind = 1 + iota // the hits of a key in a window
	series                 // the counts of a key in steps
	top                    // the n keys with a prefix that have most hits in a window
	keys                   // n keys with a prefix, after another in their order
	deletion
	distinctIDs // of a key, with what evicted ones of its name may have had in a window
	kinds
)

// class separates the questions that are answered at once from those that go through many keys or points, so that none
// waits for another.
type class byte

const (
	quick class = iota
	scan
	classes
)

// question is one of any kind. Fields that the kind does not use are zero.
type question struct {
	kind   kind
	key    string        // of top and keys: the prefix
	after  string        // of keys
	at     time.Time     // the end of a window or of a series
	from   int64         // of a series, Unix s
	window time.Duration // of a series: the step
	n      int           // of top and keys
	until  int64         // of a deletion, Unix ms: the caller does not wait longer, so it must not be done after that
	upTo   uint64        // a message of the journal that the node must have applied; 0: any
	in     replication.PartitionSet
	span   *tracing.Span // of the request that asks first
}

func (q *question) class() class {
	if q.kind == count || q.kind == deletion || q.kind == distinctIDs {
		return quick
	}
	return scan
}

// keyed returns the key that is asked about; engine.AllKeys is the sum of all, "" is many, as in a list.
func (q *question) keyed() string {
	if q.kind == top || q.kind == keys {
		return ""
	}
	return q.key
}

// wide reports whether the question is about the keys of all partitions. It goes to as many nodes as hold them, to each with
// its set. Any other question goes to one node that holds the key.
func (q *question) wide() bool {
	return q.keyed() == "" || q.key == engine.AllKeys && q.kind != deletion
}

// exact reports whether the bytes have all of the question: a window with a part of a second would pass for another.
func (q *question) exact() bool { return q.window%time.Second == 0 }

func (q *question) points() int64 { return (q.at.Unix() - q.from) / int64(q.window/time.Second) }

// answer lets an engine answer, about the set of partitions if the question is wide.
func (q *question) answer(e *engine.Engine) (list result, err error) {
	switch q.kind {
	case count:
		var c engine.Count
		c, err = e.CountIn(q.in, q.at, q.key, q.window)
		return result{{Count: c}}, err
	case series:
		var points []engine.Point
		points, err = e.SeriesIn(q.in, q.key, time.Unix(q.from, 0), q.at, q.window)
		list = make(result, 0, len(points))
		for _, p := range points {
			list = append(list, engine.KeyCount{Count: p.Count})
		}
	case top:
		list, err = e.TopIn(q.in, q.at, q.window, q.n, q.key)
	case keys:
		var names []string
		names, err = e.KeysIn(q.in, q.key, q.after, q.n)
		list = make(result, 0, len(names))
		for _, key := range names {
			list = append(list, engine.KeyCount{Key: key})
		}
	case distinctIDs:
		set, gone, err := e.Distinct(q.at, q.key, q.window)
		list = result{{Count: engine.Count{Upper: gone}}}
		if set != nil {
			list[0].Key = string(set.Append(nil))
		}
		return list, err
	case deletion:
		var was bool
		if was, err = e.Delete(q.key); was {
			list = result{{Key: q.key}}
		}
	}
	return list, err
}

// result answers a question of any kind:
//   - count: one count
//   - series: counts, the oldest first
//   - top: keys with their counts, the most first, of equal ones by key
//   - keys: keys in their order
//   - deletion: the key, if it existed
//   - ids: the bytes of the set as the key, "" if there is none, and the hits of evicted keys as the upper bound
type result []engine.KeyCount

// merge adds a result of the same question about other partitions, which have no key in common.
func (q *question) merge(l, more result) result {
	switch q.kind {
	case top, keys: // keys have no counts
		l = append(l, more...)
		slices.SortFunc(l, func(a, b engine.KeyCount) int {
			return cmp.Or(cmp.Compare(b.Estimate, a.Estimate), cmp.Compare(a.Key, b.Key))
		})
		return l[:min(q.n, len(l))]
	}
	for i, more := range more {
		l[i].Count = l[i].Plus(more.Count)
	}
	return l
}

// memory is about what the result takes.
func (l result) memory() (n int) {
	for i := range l {
		n += 40 + len(l[i].Key)
	}
	return n
}

// answer is what is said to a question: a result, or err.
type answer struct {
	result result
	err    *engine.Error
	held   replication.PartitionSet // with CodeNotHeld: what the node holds, of a wide question
}

func (a *answer) notHeld() bool { return a.err != nil && a.err.Code == api.CodeNotHeld }

// elsewhere reports whether another node should be asked.
func (a *answer) elsewhere() bool {
	return a.notHeld() || a.err != nil && (a.err.Code == api.CodeClosed || a.err.Code == api.CodeNotFresh)
}

func answerOf(e *engine.Engine, q *question) answer {
	result, err := q.answer(e)
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
	var known *engine.Error
	if errors.As(err, &known) {
		return known
	}
	// Engines have no other errors but of records of limits that they do not know, as a newer one may: another holder may.
	return &engine.Error{Code: api.CodeNotHeld, Field: "key", Message: err.Error()}
}

// append appends a question, its set only if it is wide (wire.go).
func (q *question) append(b []byte) []byte {
	b = append(b, byte(q.kind))
	b = wire.AppendText(b, q.key)
	b = wire.AppendText(b, q.after)
	b = binary.AppendVarint(b, q.at.Unix())
	b = binary.AppendUvarint(b, uint64(q.at.Nanosecond()))
	b = binary.AppendVarint(b, q.from)
	b = binary.AppendUvarint(b, uint64(q.window/time.Second))
	b = binary.AppendUvarint(b, uint64(q.n))
	b = binary.AppendVarint(b, q.until)
	b = binary.AppendUvarint(b, q.upTo)
	return appendSet(b, q.in)
}

func readQuestion(r *wire.Reader, partitions int) (q question, ok bool) {
	q.kind = kind(r.Byte())
	q.key, q.after = r.Text(maxFilter), r.Text(maxFilter)
	q.at = time.Unix(r.Varint(), int64(r.AtMost(uint64(time.Second-1))))
	q.from = r.Varint()
	q.window = time.Duration(r.AtMost(uint64(engine.MaxWindow/time.Second))) * time.Second
	q.n = int(r.AtMost(engine.MaxList))
	q.until, q.upTo = r.Varint(), r.Uvarint()
	if q.wide() {
		q.in = readSet(r, partitions)
	}
	windowed := q.kind != keys && q.kind != deletion
	ok = r.Done() && q.kind >= count && q.kind < kinds && (q.window > 0 || !windowed)
	return q, ok && (q.kind != series || q.at.Unix() >= q.from && q.points() <= engine.MaxPoints)
}

// append appends how many there are, and of each the key, lower, estimate - lower, upper - estimate.
func (l result) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(l)))
	for i := range l {
		c := &l[i]
		b = wire.AppendText(b, c.Key)
		b = binary.AppendUvarint(b, c.Lower)
		b = binary.AppendUvarint(b, c.Estimate-c.Lower)
		b = binary.AppendUvarint(b, c.Upper-c.Estimate)
	}
	return b
}

// read reads a result from another node. It refuses what does not fit the question.
func (q *question) read(r *wire.Reader) result {
	n, least, most, longest := r.Count(), int64(0), int64(q.n), engine.MaxKeyBytes
	switch q.kind {
	case distinctIDs:
		least, most, longest = 1, 1, distinct.MaxBytes
	case count:
		least, most = 1, 1
	case series:
		least = q.points()
		most = least
	case deletion:
		most = 1
	}
	if int64(n) < least || int64(n) > most {
		r.Fail()
		return nil
	}
	l := make(result, n)
	for i := range l {
		l[i].Key = r.Text(longest)
		l[i].Lower = r.Uvarint()
		l[i].Estimate = l[i].Lower + r.AtMost(math.MaxUint64-l[i].Lower)
		l[i].Upper = l[i].Estimate + r.AtMost(math.MaxUint64-l[i].Estimate)
	}
	return l
}

// Counts answers as engine.Engine.CountAt does, for keys of any node. Either all questions are answered, or there is an error: a
// *engine.Error, or the error of ctx. The answers are appended to counts. Only nodes answer that have applied the
// journal up to the message upTo.
func (r *Router) Counts(ctx context.Context, upTo uint64, questions []api.CountQuestion, counts []engine.Count) (_ []engine.Count, fresh api.Freshness, err error) {
	if len(questions) == 0 {
		return counts, r.own(), nil
	}
	first := len(counts)
	counts = slices.Grow(counts, len(questions))[:first+len(questions)]
	for at := 0; at < len(questions); at += maxTogether {
		end := min(at+maxTogether, len(questions))
		some, err := r.counts(ctx, upTo, questions[at:end], counts[first+at:first+end])
		if err != nil {
			return nil, api.Freshness{}, err
		}
		fresh = joined(fresh, some)
	}
	return counts, fresh, nil
}

// maxTogether is how many questions of one call are asked at the same time: a large call leaves some of maxAsking to others.
const maxTogether = maxAsking / 4

func (r *Router) counts(ctx context.Context, upTo uint64, questions []api.CountQuestion, counts []engine.Count) (fresh api.Freshness, err error) {
	var flights, begun []*flight
	var places []int // of flights in counts
	for i, cq := range questions {
		if here, ownFresh, ok := r.countHere(cq); ok {
			counts[i], fresh = here, joined(fresh, ownFresh)
			continue
		}
		// The key is cloned because an equal question may wait for the answer longer than this caller.
		s := r.start(&question{kind: count, key: strings.Clone(cq.Key), at: cq.At, window: cq.Window, upTo: upTo, span: tracing.From(ctx)})
		if s.err != nil {
			r.begin(begun) // they may be shared already
			return api.Freshness{}, s.err
		}
		if s.isNew {
			begun = append(begun, s.flight)
		}
		if s.flight != nil {
			flights, places = append(flights, s.flight), append(places, i)
			continue
		}
		counts[i], fresh = s.result[0].Count, joined(fresh, s.fresh)
	}
	r.begin(begun)
	for i, f := range flights {
		if err := r.wait(ctx, f); err != nil {
			return api.Freshness{}, err
		}
		counts[places[i]], fresh = f.answer.result[0].Count, joined(fresh, f.fresh)
	}
	return fresh, nil
}

// countHere answers about a key that is held here as start would, without a question to allocate. If it returns false, start
// finds the error.
func (r *Router) countHere(q api.CountQuestion) (c engine.Count, fresh api.Freshness, ok bool) {
	if q.Key == engine.AllKeys || !r.engine.Keyspace().HoldsKey(q.Key) {
		return c, fresh, false
	}
	fresh = r.own() // before the answer that it describes
	c, err := r.engine.CountAt(q.At, q.Key, q.Window)
	return c, fresh, err == nil
}

// Series answers as engine.Engine.Series does, for a key of any node.
func (r *Router) Series(ctx context.Context, upTo uint64, key string, from, to time.Time, step time.Duration) ([]engine.Point, api.Freshness, error) {
	l, fresh, err := r.ask(ctx, &question{kind: series, key: key, from: from.Unix(), at: time.Unix(to.Unix(), 0), window: step, upTo: upTo})
	points := make([]engine.Point, len(l))
	for i, c := range l {
		points[i] = engine.Point{At: time.Unix(from.Unix()+int64(i+1)*int64(step/time.Second), 0), Count: c.Count}
	}
	return points, fresh, err
}

// Top answers as engine.Engine.Top does, for the keys of all nodes.
func (r *Router) Top(ctx context.Context, upTo uint64, at time.Time, w time.Duration, n int, prefix string) ([]engine.KeyCount, api.Freshness, error) {
	l, fresh, err := r.ask(ctx, &question{kind: top, key: clip(prefix, maxFilter), at: time.Unix(at.Unix(), 0), window: w, n: n, upTo: upTo})
	return slices.Clone(l), fresh, err
}

// Keys answers as engine.Engine.Keys does, for the keys of all nodes.
func (r *Router) Keys(ctx context.Context, upTo uint64, prefix, after string, limit int) ([]string, api.Freshness, error) {
	l, fresh, err := r.ask(ctx, &question{kind: keys, key: clip(prefix, maxFilter), after: clip(after, maxFilter), n: limit, upTo: upTo})
	names := make([]string, len(l))
	for i := range l {
		names[i] = l[i].Key
	}
	return names, fresh, err
}

// Distinct answers as engine.Engine.Distinct does, for a key of any node.
func (r *Router) Distinct(ctx context.Context, upTo uint64, q api.CountQuestion) (set *distinct.Set, gone uint64, fresh api.Freshness, err error) {
	l, fresh, err := r.ask(ctx, &question{kind: distinctIDs, key: strings.Clone(q.Key), at: q.At, window: q.Window, upTo: upTo})
	if err != nil {
		return nil, 0, fresh, err
	}
	if l[0].Key != "" {
		read := wire.NewReader([]byte(l[0].Key))
		if set = distinct.Read(read, int64(r.engine.Config().Retention/time.Second)); !read.Done() {
			return nil, 0, fresh, &engine.Error{Code: api.CodeNotHeld, Field: "key", Message: "the ids of the key can't be read: check that all nodes run the same version"}
		}
	}
	return set, l[0].Upper, fresh, nil
}

// Delete deletes as engine.Engine.Delete does, at one holder, which journals it for the others: these return the old count
// until its flush. All hits that this node took before are deleted too. If a holder did not answer in time and the next
// one was asked, false may mean that the first one has deleted the key.
func (r *Router) Delete(ctx context.Context, key string) (bool, error) {
	was, err := r.engine.Delete(key)
	switch {
	case err == nil:
		r.single.forget(key)
		return was, nil
	case asError(err).Code != api.CodeNotHeld:
		return false, err
	}
	if err := r.flush(ctx); err != nil {
		return false, err
	}
	f, err := r.single.unshared(question{kind: deletion, key: key, span: tracing.From(ctx)})
	if err != nil {
		return false, err
	}
	r.begin([]*flight{f})
	err = f.wait(ctx)
	return err == nil && len(f.answer.result) > 0, err
}

// flush journals the own hits before a deletion.
func (r *Router) flush(ctx context.Context) error {
	if r.cfg.Flush == nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, r.deadline(quick))
	defer cancel()
	err := r.cfg.Flush(within)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &engine.Error{Code: api.CodeOverloaded, Field: "key",
		Message: "the key was not deleted, because earlier hits could not be journaled: " + err.Error() + "; retry in a second"}
}
