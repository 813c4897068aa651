package resp

import (
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/resp/protocol"
	"github.com/weir-counter/weir/service"
)

// mostTop is the most keys of one TOP.
const mostTop = 1000

// series is SERIES: the end of each window and its hits.
func (s *session) series(args [][]byte) error {
	step, err := service.ParseWindow("step", string(args[2]))
	if err != nil {
		return err
	}
	o := question{now: s.server.service.Now()}
	if err := o.options(args[3:], "TO", "FROM"); err != nil {
		return err
	}
	q := service.SeriesQuery{Key: string(args[1]), From: o.from, To: o.at, Step: step, Fresh: o.fresh, Scope: o.scope}
	if err := s.enterQuestions(); err != nil {
		return err
	}
	answer, err := s.server.service.Series(s.ctx, s.caller, q)
	if err != nil {
		return err
	}
	s.fields(2, &answer.Freshness)
	s.field("points")
	s.out.Array(len(answer.Points))
	for i := range answer.Points {
		p := &answer.Points[i]
		s.out.Array(4)
		s.out.Int(p.At.Unix())
		s.writeBounds(&p.Bounds)
	}
	s.writeFreshness(&answer.Freshness)
	return nil
}

// top is TOP: keys and their hits, most hits first.
func (s *session) top(args [][]byte) error {
	w, err := service.ParseWindow("window", string(args[1]))
	if err != nil {
		return err
	}
	n, ok := protocol.ParseUint(args[2])
	if !ok || n < 1 || n > mostTop {
		return argument.Wrong(api.CodeInvalidParameter, "n", "n of "+argument.Clip(args[2])+": must be a whole number from 1 to 1000")
	}
	var o question
	if err := o.options(args[3:], "AT", "PREFIX"); err != nil {
		return err
	}
	q := service.TopQuery{Window: w, N: int(n), Prefix: o.prefix, At: o.at, Fresh: o.fresh, Scope: o.scope}
	if err := s.enterQuestions(); err != nil {
		return err
	}
	answer, err := s.server.service.Top(s.ctx, s.caller, q)
	if err != nil {
		return err
	}
	s.fields(2, &answer.Freshness)
	s.field("keys")
	s.out.Array(len(answer.Keys))
	for i := range answer.Keys {
		k := &answer.Keys[i]
		s.out.Array(4)
		s.out.Bulk(k.Key)
		s.writeBounds(&k.Bounds)
	}
	s.writeFreshness(&answer.Freshness)
	return nil
}

// writeBounds writes lower, estimate and upper.
func (s *session) writeBounds(b *api.Bounds) {
	s.out.Uint(b.Lower)
	s.out.Uint(b.Estimate)
	if b.Upper == nil {
		s.out.Null()
	} else {
		s.out.Uint(*b.Upper)
	}
}
