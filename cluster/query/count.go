package query

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/partial"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/internal/wire"
)

// CountQuestion is one of Counts.
type CountQuestion struct {
	Key    string // weir.AllKeys: all hits
	At     time.Time
	Window time.Duration
}

// counted is a kind: the hits of a key in a window. counting is its result.
type (
	counted  CountQuestion
	counting weir.Count
)

// Counts answers as weir.Engine.CountAt does, for keys of any node. Either all are
// answered, or there is an error: a *weir.Error, or that of ctx.
func (r Reading) Counts(ctx context.Context, questions []CountQuestion) (counts []weir.Count, fresh Fresh, err error) {
	if len(questions) == 0 {
		return nil, r.own(), nil
	}
	counts = make([]weir.Count, len(questions))
	for at := 0; at < len(questions); at += maxTogether {
		end := min(at+maxTogether, len(questions))
		some, err := r.counts(ctx, questions[at:end], counts[at:end])
		if err != nil {
			return nil, Fresh{}, err
		}
		fresh = fresh.with(some)
	}
	return counts, fresh, nil
}

// Counts is that of a Reading after anything.
func (r *Router) Counts(ctx context.Context, questions []CountQuestion) ([]weir.Count, Fresh, error) {
	return r.After(0).Counts(ctx, questions)
}

// maxTogether is how many questions of one call are under way: a large one leaves
// room for others.
const maxTogether = maxAsking / 4

func (r Reading) counts(ctx context.Context, questions []CountQuestion, counts []weir.Count) (fresh Fresh, err error) {
	var flights, begun []*flight
	var places []int // of flights in counts
	for i, cq := range questions {
		if here, of, ok := r.countHere(cq); ok {
			counts[i], fresh = here, fresh.with(of)
			continue
		}
		s := r.start(&question{kind: counted(cq), upTo: r.upTo})
		if s.err != nil {
			r.begin(begun) // they may be shared already
			return Fresh{}, s.err
		}
		if s.isNew {
			begun = append(begun, s.flight)
		}
		if s.flight != nil {
			flights, places = append(flights, s.flight), append(places, i)
			continue
		}
		counts[i], fresh = weir.Count(s.answer.result.(counting)), fresh.with(s.fresh)
	}
	r.begin(begun)
	for i, f := range flights {
		if err := f.wait(ctx); err != nil {
			return Fresh{}, err
		}
		counts[places[i]], fresh = weir.Count(f.answer.result.(counting)), fresh.with(f.fresh)
	}
	return fresh, nil
}

// countHere answers about a key that is held here as start would, without a question to
// allocate. Errors are start's.
func (r *Router) countHere(q CountQuestion) (c weir.Count, fresh Fresh, ok bool) {
	if q.Key == weir.AllKeys || !r.Holds(q.Key) {
		return c, fresh, false
	}
	fresh = r.own() // before what it is said of
	c, err := r.engine.CountAt(q.At, q.Key, q.Window)
	return c, fresh, err == nil
}

func (counted) number() byte    { return 1 }
func (counted) class() class    { return quick }
func (q counted) keyed() string { return q.Key }
func (q counted) wide() bool    { return q.Key == weir.AllKeys }
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
	key := r.Text(weir.MaxKeyBytes)
	at := time.Unix(r.Varint(), int64(r.AtMost(uint64(time.Second-1))))
	return counted{key, at, readWindow(r)}
}

func (q counted) answer(e *weir.Engine, in replication.PartitionSet) (result, error) {
	c, err := partial.Of(e).CountIn(in, q.At, q.Key, q.Window)
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
	return counting(weir.Count(c).Plus(weir.Count(more.(counting))))
}

func (counting) memory() int { return 24 }

// whole tells whether a window has no part of a second.
func whole(w time.Duration) bool { return w%time.Second == 0 }

func seconds(w time.Duration) uint64 { return uint64(w / time.Second) }

// readWindow reads whole seconds, at least one.
func readWindow(r *wire.Reader) time.Duration {
	seconds := r.AtMost(uint64(weir.MaxWindow / time.Second))
	if seconds == 0 {
		r.Fail()
		return time.Second
	}
	return time.Duration(seconds) * time.Second
}
