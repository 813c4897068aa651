package strict

import (
	"context"
	"errors"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/cluster/checks"
	"github.com/weir-counter/weir/internal/limits"
)

// decide answers a question, at once or after the journal has it, or never.
func (s *Strict) decide(i int, q checks.Question, tell func(answer)) {
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
	if !q.Changes(a.Answer) {
		tell(a)
		return
	}
	s.commits.add(commit{g, token, func() { tell(a) }})
}

// take decides on this node's engine.
func (s *Strict) take(i int, q checks.Question) (a answer, err error) {
	for _, c := range q.Checks {
		if s.Group(c.Key) != i {
			return a, &weir.Error{Code: weir.CodeInvalidKey, Field: "key", Message: "the key is of another group: all nodes must have as many partitions"}
		}
	}
	a.Answer, err = s.cfg.Lender.Decide(i, q)
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

// Decide is of admit.Strict: it takes or peeks at the holder of the keys' group.
// The error is a *weir.Error of the holder's engine.
func (s *Strict) Decide(asked []weir.Check, verdicts []weir.Verdict, take bool) (allowed, answered bool, err error) {
	i := s.Group(asked[0].Key)
	a, err := s.ask(i, checks.Ask(asked, take))
	switch {
	case err != nil:
		s.stats.unanswered.Add(1)
		return false, false, nil
	case a.err != nil:
		return false, true, a.err
	}
	copy(verdicts, a.Verdicts)
	return a.Allowed, true, nil
}

// Change is of admit.Strict: it makes a change at the holder of the key's group, once. The error is a
// *weir.Error of the holder's engine.
func (s *Strict) Change(c limits.Change, of weir.Check) (made limits.Changed, answered bool, err error) {
	a, err := s.askAgain(s.Group(of.Key), checks.AskChange(c, of))
	switch {
	case err != nil:
		s.stats.unanswered.Add(1)
		return made, false, nil
	case a.err != nil:
		return made, true, a.err
	}
	return a.Made(), true, nil
}

// ask asks the holder, which may be this node.
func (s *Strict) ask(i int, q checks.Question) (a answer, err error) {
	err = s.inTime(i, func(ctx context.Context) error {
		a, err = s.askHolder(ctx, i, q)
		return err
	})
	return a, err
}

const (
	// changeTime is for how long a change is asked for that is not answered. Then it is not known whether it was made.
	changeTime = 3 * time.Second

	// changePause is between two times.
	changePause = 25 * time.Millisecond

	// maxChanging is how many changes may be asked for again: beyond that each is asked for once.
	maxChanging = 1000
)

// askAgain asks the holder for a change, of whoever holds the group, until it is answered or changeTime is over. Each time
// it waits twice as long.
func (s *Strict) askAgain(i int, q checks.Question) (a answer, err error) {
	defer s.changing.Add(-1)
	again := s.changing.Add(1) <= maxChanging
	ctx, cancel := context.WithTimeout(s.life, changeTime)
	defer cancel()
	for wait := s.cfg.Deadline; ; wait *= 2 {
		err = s.within(ctx, wait, i, func(ctx context.Context) error {
			a, err = s.askHolder(ctx, i, q)
			return err
		})
		if err == nil || errors.Is(err, errWire) || !again {
			return a, err
		}
		select {
		case <-ctx.Done():
			return a, err
		case <-time.After(changePause):
		}
	}
}

// inTime asks the holder of a group, unless it did not answer a moment ago.
func (s *Strict) inTime(i int, ask func(ctx context.Context) error) error {
	if !s.groups[i].breaker.enter(time.Now()) {
		return errResting
	}
	return s.within(s.life, s.cfg.Deadline, i, ask)
}

// within asks the holder of a group, whether it answered a moment ago or not.
func (s *Strict) within(ctx context.Context, d time.Duration, i int, ask func(ctx context.Context) error) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := ask(ctx)
	s.groups[i].breaker.leave(began, time.Now(), err == nil, errors.Is(err, context.DeadlineExceeded))
	return err
}

var errResting = errors.New("the node that decides did not answer a moment ago; asking it again shortly")

func (s *Strict) askHolder(ctx context.Context, i int, q checks.Question) (answer, error) {
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
	msg, err := s.conn.RequestWithContext(ctx, subject(i), encode(q))
	if err != nil {
		return answer{}, err
	}
	return decodeAnswer(msg.Data, len(q.Checks))
}
