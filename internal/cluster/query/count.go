package query

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// counted is a kind: the hits of a key in a window. counting is its result.
type (
	counted  api.CountQuestion
	counting engine.Count
)

// Counts answers as engine.Engine.CountAt does, for keys of any node. Either all are
// answered, or there is an error: a *engine.Error, or the error of ctx. The answers are appended to counts.
// Only nodes answer that have applied the journal up to the message upTo.
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

// maxTogether is how many questions of one call are under way: a large one leaves
// room for others.
const maxTogether = maxAsking / 4

func (r *Router) counts(ctx context.Context, upTo uint64, questions []api.CountQuestion, counts []engine.Count) (fresh api.Freshness, err error) {
	var flights, begun []*flight
	var places []int // of flights in counts
	for i, cq := range questions {
		if here, of, ok := r.countHere(cq); ok {
			counts[i], fresh = here, joined(fresh, of)
			continue
		}
		cq.Key = strings.Clone(cq.Key) // questions of others that are equal wait for its answer longer than this caller
		s := r.start(&question{kind: counted(cq), upTo: upTo})
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
		counts[i], fresh = engine.Count(s.answer.result.(counting)), joined(fresh, s.fresh)
	}
	r.begin(begun)
	for i, f := range flights {
		if err := f.wait(ctx); err != nil {
			return api.Freshness{}, err
		}
		counts[places[i]], fresh = engine.Count(f.answer.result.(counting)), joined(fresh, f.fresh)
	}
	return fresh, nil
}

// countHere answers about a key that is held here as start would, without a question to
// allocate. Errors are start's.
func (r *Router) countHere(q api.CountQuestion) (c engine.Count, fresh api.Freshness, ok bool) {
	if q.Key == engine.AllKeys || !r.engine.HoldsKey(q.Key) {
		return c, fresh, false
	}
	fresh = r.own() // before what it is said of
	c, err := r.engine.CountAt(q.At, q.Key, q.Window)
	return c, fresh, err == nil
}

func (counted) number() byte    { return 1 }
func (counted) class() class    { return quick }
func (q counted) keyed() string { return q.Key }
func (q counted) wide() bool    { return q.Key == engine.AllKeys }
func (counted) counts() bool    { return true }
func (q counted) exact() bool   { return whole(q.Window) }

// count: key, at (signed s), ns, window s.
func (q counted) append(b []byte) []byte {
	b = wire.AppendText(b, q.Key)
	b = binary.AppendVarint(b, q.At.Unix())
	b = binary.AppendUvarint(b, uint64(q.At.Nanosecond()))
	return binary.AppendUvarint(b, seconds(q.Window))
}

func readCount(r *wire.Reader) kind {
	key := r.Text(engine.MaxKeyBytes)
	at := time.Unix(r.Varint(), int64(r.AtMost(uint64(time.Second-1))))
	return counted{key, at, readWindow(r)}
}

func (q counted) answer(e *engine.Engine, in replication.PartitionSet) (result, error) {
	c, err := e.CountIn(in, q.At, q.Key, q.Window)
	return counting(c), err
}

func (counted) read(r *wire.Reader) result { return readBounds(r) }

// lower, estimate - lower, upper - estimate.
func (c counting) append(b []byte) []byte {
	b = binary.AppendUvarint(b, c.Lower)
	b = binary.AppendUvarint(b, c.Estimate-c.Lower)
	return binary.AppendUvarint(b, c.Upper-c.Estimate)
}

func readBounds(r *wire.Reader) counting {
	lower := r.Uvarint()
	estimate := lower + r.AtMost(math.MaxUint64-lower)
	return counting{Lower: lower, Estimate: estimate, Upper: estimate + r.AtMost(math.MaxUint64-estimate)}
}

func (c counting) merge(_ kind, more result) result {
	return counting(engine.Count(c).Plus(engine.Count(more.(counting))))
}

func (counting) memory() int { return 24 }

// whole tells whether a window has no part of a second.
func whole(w time.Duration) bool { return w%time.Second == 0 }

func seconds(w time.Duration) uint64 { return uint64(w / time.Second) }

// readWindow reads whole seconds, at least one.
func readWindow(r *wire.Reader) time.Duration {
	seconds := r.AtMost(uint64(engine.MaxWindow / time.Second))
	if seconds == 0 {
		r.Fail()
		return time.Second
	}
	return time.Duration(seconds) * time.Second
}

// series is a kind: the counts of a key in steps from one Unix second to another.
type series struct {
	key      string
	from, to int64
	step     time.Duration
}

// points is its result: a count for each step, the oldest first.
type points []engine.Count

// Series answers as engine.Engine.Series does, for a key of any node.
func (r *Router) Series(ctx context.Context, upTo uint64, key string, from, to time.Time, step time.Duration) ([]engine.Point, api.Freshness, error) {
	q := series{key, from.Unix(), to.Unix(), step}
	a, fresh, err := r.ask(ctx, &question{kind: q, upTo: upTo})
	if err != nil {
		return nil, api.Freshness{}, err
	}
	counts := a.result.(points)
	list := make([]engine.Point, len(counts))
	for i, c := range counts {
		list[i] = engine.Point{At: time.Unix(q.from+int64(i+1)*int64(seconds(step)), 0), Count: c}
	}
	return list, fresh, nil
}

func (series) number() byte    { return 2 }
func (series) class() class    { return scan }
func (q series) keyed() string { return q.key }
func (q series) wide() bool    { return q.key == engine.AllKeys }
func (series) counts() bool    { return true }
func (q series) exact() bool   { return whole(q.step) }
func (q series) length() int64 { return (q.to - q.from) / int64(seconds(q.step)) }

// series: key, from (signed s), to (signed s), step s.
func (q series) append(b []byte) []byte {
	b = wire.AppendText(b, q.key)
	b = binary.AppendVarint(b, q.from)
	b = binary.AppendVarint(b, q.to)
	return binary.AppendUvarint(b, seconds(q.step))
}

func readSeries(r *wire.Reader) kind {
	q := series{key: r.Text(engine.MaxKeyBytes), from: r.Varint(), to: r.Varint()}
	q.step = readWindow(r)
	if q.to-q.from < 0 || q.length() > engine.MaxPoints {
		r.Fail()
	}
	return q
}

func (q series) answer(e *engine.Engine, in replication.PartitionSet) (result, error) {
	list, err := e.SeriesIn(in, q.key, time.Unix(q.from, 0), time.Unix(q.to, 0), q.step)
	counts := make(points, len(list))
	for i, p := range list {
		counts[i] = p.Count
	}
	return counts, err
}

func (q series) read(r *wire.Reader) result {
	n := r.Count()
	if int64(n) != q.length() {
		r.Fail()
		return points(nil)
	}
	counts := make(points, n)
	for i := range counts {
		counts[i] = engine.Count(readBounds(r))
	}
	return counts
}

// How many counts, counts.
func (p points) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	for _, c := range p {
		b = counting(c).append(b)
	}
	return b
}

func (p points) merge(_ kind, more result) result {
	for i, c := range more.(points) {
		p[i] = p[i].Plus(c)
	}
	return p
}

func (p points) memory() int { return 24 * len(p) }
