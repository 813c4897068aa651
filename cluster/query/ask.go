package query

import (
	"context"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
)

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
		own.in = replication.NewPartitionSet(r.partitions) // none: only to be checked
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
		return replication.Of(r.engine).HeldPartitions().Len() == r.partitions
	}
	return replication.Of(r.engine).Holds(replication.Of(r.engine).PartitionOf(q.keyed()))
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
