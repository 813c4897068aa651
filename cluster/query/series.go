package query

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/partial"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// series is a kind: the counts of a key in steps from one Unix second to another.
type series struct {
	key      string
	from, to int64
	step     time.Duration
}

// points is its result: a count for each step, the oldest first.
type points []weir.Count

// Series answers as weir.Engine.Series does, for a key of any node.
func (r Reading) Series(ctx context.Context, key string, from, to time.Time, step time.Duration) ([]weir.Point, Fresh, error) {
	q := series{key, from.Unix(), to.Unix(), step}
	a, fresh, err := r.ask(ctx, &question{kind: q, upTo: r.upTo})
	if err != nil {
		return nil, Fresh{}, err
	}
	counts := a.result.(points)
	list := make([]weir.Point, len(counts))
	for i, c := range counts {
		list[i] = weir.Point{At: time.Unix(q.from+int64(i+1)*int64(seconds(step)), 0), Count: c}
	}
	return list, fresh, nil
}

// Series is that of a Reading after anything.
func (r *Router) Series(ctx context.Context, key string, from, to time.Time, step time.Duration) ([]weir.Point, Fresh, error) {
	return r.After(0).Series(ctx, key, from, to, step)
}

func (series) number() byte    { return 2 }
func (series) class() class    { return scan }
func (q series) keyed() string { return q.key }
func (q series) wide() bool    { return q.key == weir.AllKeys }
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
	q := series{key: r.Text(weir.MaxKeyBytes), from: r.Varint(), to: r.Varint()}
	q.step = readWindow(r)
	if q.to-q.from < 0 || q.length() > weir.MaxPoints {
		r.Fail()
	}
	return q
}

func (q series) answer(e *weir.Engine, in replication.PartitionSet) (result, error) {
	list, err := partial.Of(e).SeriesIn(in, q.key, time.Unix(q.from, 0), time.Unix(q.to, 0), q.step)
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
		counts[i] = weir.Count(readBounds(r))
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
