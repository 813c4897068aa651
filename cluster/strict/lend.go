package strict

import (
	"context"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/checks"
)

// Ask puts a Lender's question to the Lender of the node that holds a group, which may be this one.
// It returns within Config.Deadline. An error says that there was no answer: then the question may have been
// served, or not.
func (s *Strict) Ask(group int, question []byte) (answer []byte, err error) {
	err = s.inTime(group, func(ctx context.Context) error {
		answer, err = s.askLender(ctx, group, question)
		return err
	})
	return answer, err
}

func (s *Strict) askLender(ctx context.Context, i int, question []byte) ([]byte, error) {
	if _, ok := s.holds(&s.groups[i]); ok {
		told := make(chan []byte, 1)
		s.serve(i, question, func(b []byte) { told <- b })
		select {
		case answer := <-told:
			return answer, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	msg, err := s.conn.RequestWithContext(ctx, subject(i), append([]byte{lenderVersion}, question...))
	if err != nil {
		return nil, err
	}
	return msg.Data, nil
}

// serve has the Lender answer, at once or once the journal has it, or never.
func (s *Strict) serve(i int, question []byte, tell func([]byte)) {
	g := &s.groups[i]
	token, ok := s.holds(g)
	if !ok {
		return
	}
	if s.commits.full() {
		s.stats.refused.Add(1)
		return
	}
	answer, commit := s.cfg.Lender.Serve(i, token, question)
	switch {
	case answer == nil:
	case commit:
		s.commits.add(commitOf(g, token, answer, tell))
	default:
		tell(answer)
	}
}

func commitOf(g *group, token uint64, answer []byte, tell func([]byte)) commit {
	return commit{g, token, func() { tell(answer) }}
}

// alone is the Lender of a Strict without one.
type alone struct{ engine *weir.Engine }

func (alone) Learn(int, uint64) {}

func (a alone) Decide(_ int, q checks.Question) (checks.Answer, error) { return q.Decide(a.engine) }

func (alone) Serve(int, uint64, []byte) (answer []byte, commit bool) { return nil, false }
