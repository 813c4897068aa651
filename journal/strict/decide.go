package strict

import (
	"context"
	"errors"
	"time"

	"github.com/weir-counter/weir"
)

// decide answers a question, at once or after the journal has it, or never.
func (s *Strict) decide(i int, q question, tell func(answer)) {
	g := &s.groups[i]
	token, ok := s.holds(g)
	if !ok {
		return
	}
	if s.commits.full() {
		s.stats.refused.Add(1)
		return
	}
	a, err := s.take(i, q)
	if err != nil {
		tell(answer{err: err})
		return
	}
	s.stats.decided.Add(1)
	if !a.allowed || !q.takes() {
		tell(a)
		return
	}
	s.commits.add(commit{g, token, func() { tell(a) }})
}

// take decides on this node's engine.
func (s *Strict) take(i int, q question) (a answer, err error) {
	checks := make([]weir.Check, len(q.checks))
	for k, c := range q.checks {
		if s.Group(c.key) != i {
			return a, &weir.Error{Code: weir.CodeInvalidKey, Field: "key", Message: "the key is of another group: all nodes must have as many partitions"}
		}
		of, err := s.cfg.Engine.LimitOfRecord(c.record)
		if err != nil {
			return a, err
		}
		checks[k] = weir.Check{Limit: of, Key: c.key, N: c.n, Shadow: c.shadow}
	}
	a.verdicts = make([]weir.Verdict, len(checks))
	if q.take {
		a.allowed, err = s.cfg.Engine.TakeAll(checks, a.verdicts)
	} else {
		a.allowed, err = s.cfg.Engine.PeekAll(checks, a.verdicts)
	}
	return a, err
}

// commitTime bounds the wait for the journal: who asked has long given up.
const commitTime = 2 * time.Second

// commit tells of admissions once they are in the journal. All that come while one
// flush is written wait for the next together.
func (s *Strict) commit(ctx context.Context) {
	for {
		list := s.commits.take(ctx)
		if list == nil {
			return
		}
		syncing, cancel := context.WithTimeout(ctx, commitTime)
		err := s.cfg.Journal.Sync(syncing)
		cancel()
		for _, c := range list {
			if token, ok := s.holds(c.group); err != nil || !ok || token != c.token {
				s.stats.lost.Add(1)
				continue
			}
			c.tell()
		}
	}
}

// rest is for how long a holder that did not answer in time is not asked again.
const rest = time.Second

// Decide is of policy.Strict: it takes or peeks at the holder of the keys' group.
// The error is a *weir.Error of the holder's engine.
func (s *Strict) Decide(checks []weir.Check, verdicts []weir.Verdict, take bool) (allowed, answered bool, err error) {
	i := s.Group(checks[0].Key)
	a, err := s.ask(i, newQuestion(checks, take))
	switch {
	case err != nil:
		s.stats.unanswered.Add(1)
		return false, false, nil
	case a.err != nil:
		return false, true, a.err
	}
	copy(verdicts, a.verdicts)
	return a.allowed, true, nil
}

// ask asks the holder, which may be this node.
func (s *Strict) ask(i int, q question) (answer, error) {
	g := &s.groups[i]
	if time.Now().UnixNano() < g.resting.Load() {
		return answer{}, errResting
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Deadline)
	defer cancel()
	a, err := s.askHolder(ctx, i, q)
	if errors.Is(err, context.DeadlineExceeded) {
		g.resting.Store(time.Now().Add(rest).UnixNano())
	}
	return a, err
}

var errResting = errors.New("the node that decides did not answer a moment ago")

func (s *Strict) askHolder(ctx context.Context, i int, q question) (answer, error) {
	if _, ok := s.holds(&s.groups[i]); ok {
		told := make(chan answer, 1)
		s.decide(i, q, func(a answer) { told <- a })
		select {
		case a := <-told:
			return a, nil
		case <-ctx.Done():
			return answer{}, context.Cause(ctx)
		}
	}
	s.stats.forwarded.Add(1)
	msg, err := s.conn.RequestWithContext(ctx, subject(i), q.encode())
	if err != nil {
		return answer{}, err
	}
	a, err := decodeAnswer(msg.Data)
	if err == nil && a.err == nil && len(a.verdicts) != len(q.checks) {
		err = errWire
	}
	return a, err
}
