package route

import (
	"context"
	"slices"
	"time"

	"github.com/weir-counter/weir"
)

// CountQuestion is one of Counts.
type CountQuestion struct {
	Key    string // weir.AllKeys: all hits
	At     time.Time
	Window time.Duration
}

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

// maxTogether is how many questions of one call are under way: a large one leaves
// room for others.
const maxTogether = maxAsking / 4

func (r Reading) counts(ctx context.Context, questions []CountQuestion, counts []weir.Count) (fresh Fresh, err error) {
	var flights, begun []*flight
	var places []int // of flights in counts
	for i, cq := range questions {
		s := r.start(&question{kind: kindCount, key: cq.Key, at: cq.At, window: cq.Window, upTo: r.upTo})
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
		counts[i], fresh = s.answer.count, fresh.with(s.fresh)
	}
	r.begin(begun)
	for i, f := range flights {
		if err := f.wait(ctx); err != nil {
			return Fresh{}, err
		}
		counts[places[i]], fresh = f.answer.count, fresh.with(f.fresh)
	}
	return fresh, nil
}

// Series answers as weir.Engine.Series does, for a key of any node.
func (r Reading) Series(ctx context.Context, key string, from, to time.Time, step time.Duration) ([]weir.Point, Fresh, error) {
	q := question{kind: kindSeries, key: key, from: from.Unix(), to: to.Unix(), window: step, upTo: r.upTo}
	a, fresh, err := r.ask(ctx, &q)
	if err != nil {
		return nil, Fresh{}, err
	}
	points := make([]weir.Point, len(a.points))
	for i, c := range a.points {
		points[i] = q.point(i, c)
	}
	return points, fresh, nil
}

// Top answers as weir.Engine.Top does, for the keys of all nodes.
func (r Reading) Top(ctx context.Context, at time.Time, w time.Duration, n int, prefix string) ([]weir.KeyCount, Fresh, error) {
	a, fresh, err := r.ask(ctx, &question{kind: kindTop, at: time.Unix(at.Unix(), 0), window: w, n: n, prefix: clip(prefix, maxFilter), upTo: r.upTo})
	return slices.Clone(a.top), fresh, err
}

// Keys answers as weir.Engine.Keys does, for the keys of all nodes.
func (r Reading) Keys(ctx context.Context, prefix, after string, limit int) ([]string, Fresh, error) {
	a, fresh, err := r.ask(ctx, &question{kind: kindKeys, prefix: clip(prefix, maxFilter), after: clip(after, maxFilter), n: limit, upTo: r.upTo})
	return slices.Clone(a.keys), fresh, err
}

// LimitKeys answers as weir.KeyedLimit.Keys does, for the keys of all nodes: of a shared
// limit.
func (r *Router) LimitKeys(ctx context.Context, l *weir.KeyedLimit, most int) ([]weir.KeyUse, error) {
	a, _, err := r.ask(ctx, &question{kind: kindLimitKeys, limit: l.Record(), n: most})
	return slices.Clone(a.uses), err
}

// Delete deletes as weir.Engine.Delete does, at one holder, which journals it for the
// others: these give the old count until its flush. All hits that this node took
// before go with it. When a holder did not answer in time and the next one is asked,
// false may mean that the first one has deleted it.
func (r *Router) Delete(ctx context.Context, key string) (bool, error) {
	was, err := r.engine.Delete(key)
	switch {
	case err == nil:
		r.single.forget(key)
		return was, nil
	case asError(err).Code != weir.CodeNotHeld:
		return false, err
	}
	if err := r.flush(ctx); err != nil {
		return false, err
	}
	f, err := r.single.alone(question{kind: kindDelete, key: key})
	if err != nil {
		return false, err
	}
	r.begin([]*flight{f})
	if err := f.wait(ctx); err != nil {
		return false, err
	}
	return f.answer.was, nil
}

// flush has the own hits before a deletion in the journal.
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
	return &weir.Error{Code: weir.CodeOverloaded, Field: "key",
		Message: "the key was not deleted: hits that are on their way to its holder could not be journaled before: " + err.Error() + "; retry in a second"}
}

// ask asks one question.
func (r *Router) ask(ctx context.Context, q *question) (answer, Fresh, error) {
	s := r.start(q)
	if s.flight == nil {
		return s.answer, s.fresh, s.err
	}
	if s.isNew {
		r.begin([]*flight{s.flight})
	}
	if err := s.flight.wait(ctx); err != nil {
		return answer{}, Fresh{}, err
	}
	return s.flight.answer, s.flight.fresh, nil
}

// started is what becomes of a question: this node's answer, an error, or a flight,
// which is to begin if it is new.
type started struct {
	answer answer
	fresh  Fresh
	err    error

	flight *flight
	isNew  bool
}

// start lets the own engine answer what it holds. It also is who finds out what is
// wrong with a question, so that none is sent that another engine would refuse.
func (r *Router) start(q *question) (s started) {
	held := r.holds(q)
	if !held {
		if s.flight = r.single.find(q); s.flight != nil {
			return s
		}
	}
	own := *q
	if q.wide() && !held {
		own.in = weir.NewPartitionSet(r.partitions) // none: only to be checked
	}
	s.fresh = r.own() // before what it is said of
	s.answer = answerOf(r.engine, &own)
	switch {
	case s.answer.err == nil && own.in == nil:
		return s
	case s.answer.err != nil && !s.answer.notHeld():
		return started{err: s.answer.err}
	}
	s = started{}
	s.flight, s.isNew, s.err = r.single.begin(q)
	return s
}

// holds tells whether all that a question is about is held here.
func (r *Router) holds(q *question) bool {
	if q.wide() {
		return r.engine.Replication().HeldPartitions().Len() == r.partitions
	}
	return r.engine.Replication().Holds(r.engine.Replication().PartitionOf(q.key))
}

// begin sends flights on their way: those of single keys together, each of all keys
// by itself. They go on if who asked goes away.
func (r *Router) begin(flights []*flight) {
	var keyed []*flight // of one class: only counts come together
	for _, f := range flights {
		if f.q.wide() {
			r.launch([]*flight{f}, func(ctx context.Context) { r.scatterGather(ctx, f) })
		} else {
			keyed = append(keyed, f)
		}
	}
	if len(keyed) > 0 {
		r.launch(keyed, func(ctx context.Context) { r.retryHolders(ctx, keyed) })
	}
}

func (r *Router) launch(flights []*flight, run func(ctx context.Context)) {
	if r.goes(func() {
		ctx, cancel := context.WithTimeout(r.ctx, r.deadline(flights[0].q.class()))
		defer cancel()
		run(ctx)
	}) {
		return
	}
	for _, f := range flights {
		f.err = errClosed
		r.single.finish(f)
	}
}

var errClosed = &weir.Error{Code: weir.CodeClosed, Message: "this node is stopping: ask another"}
