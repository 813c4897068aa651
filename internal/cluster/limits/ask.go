package limits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/wire"
)

// serve decides a question, and answers at once, or after the journal has it, or never. It returns false, and answers nothing,
// if this node does not decide for the group.
func (s *owners) serve(i int, q *question, tell func(answer)) bool {
	token, ok := s.holds(i)
	if !ok {
		return false
	}
	if s.commits.full() {
		s.stats.refused.Add(1)
		return true
	}
	a, commits, ok := s.limits.serve(i, token, q)
	switch {
	case !ok: // another claim was learned of meanwhile
		return false
	case commits:
		s.commit(commit{i, token, func() { tell(a) }, q.isChange() && !a.Allowed})
	default:
		tell(a)
	}
	s.stats.decided.Add(1)
	return true
}

// ask asks the owner of a group, which may be this node. It returns within Config.Deadline. An error says that there was
// no answer: then the question may have been served, or not.
func (s *owners) ask(i int, q *question) (a answer, err error) {
	err = errResting
	if s.groups[i].breaker.enter(time.Now()) {
		err = s.within(s.life, s.cfg.Deadline, i, func(ctx context.Context) error {
			a, err = s.askOwner(ctx, i, q)
			return err
		})
	}
	if err != nil {
		s.stats.unanswered.Add(1)
	}
	return a, err
}

const (
	// changeTime is for how long a change, or a command on counters, is asked for that is not answered. Then it is not known whether it was
	// made. No policy says what becomes of these: they wait longer than decisions, as on a busy machine.
	changeTime = 3 * time.Second

	// changePause is between two times.
	changePause = 25 * time.Millisecond

	// maxChanging is how many changes may be asked for again: beyond that each is asked for once.
	maxChanging = 1000
)

// change asks the owner of the group, whichever node that is, for a change until it is answered or changeTime is over. Each
// time it waits twice as long.
func (s *owners) change(i int, q *question) (a answer, err error) {
	defer s.changing.Add(-1)
	again := s.changing.Add(1) <= maxChanging
	ctx, cancel := context.WithTimeout(s.life, changeTime)
	defer cancel()
	for wait := s.cfg.Deadline; ; wait *= 2 {
		err = s.within(ctx, wait, i, func(ctx context.Context) error {
			a, err = s.askOwner(ctx, i, q)
			return err
		})
		if err == nil || errors.Is(err, errWire) || !again {
			return a, err
		}
		if concurrency.Sleep(ctx, changePause) != nil {
			return a, err
		}
	}
}

// within asks the owner of a group, whether it answered a moment ago or not. While nobody says that it is the owner, it
// asks again for ownerTime.
func (s *owners) within(ctx context.Context, d time.Duration, i int, ask func(ctx context.Context) error) (err error) {
	began := time.Now()
	for {
		once, cancel := context.WithTimeout(ctx, d)
		err = ask(once)
		cancel()
		if !errors.Is(err, errNoOwner) && !errors.Is(err, nats.ErrNoResponders) || ctx.Err() != nil {
			break
		}
		if time.Since(began) >= ownerTime {
			err = context.DeadlineExceeded
			break
		}
		_ = concurrency.Sleep(ctx, keepEvery/4)
	}
	s.groups[i].breaker.leave(began, time.Now(), err == nil, errors.Is(err, context.DeadlineExceeded))
	return err
}

// errNoOwner is an answer of a node that is not the owner any more, or not yet: it took nothing.
var errNoOwner = errors.New("the node that was asked does not decide for the key")

var errResting = errors.New("the node that decides did not answer a moment ago; asking it again shortly")

func (s *owners) askOwner(ctx context.Context, i int, q *question) (answer, error) {
	if _, ok := s.holds(i); ok {
		answers := make(chan answer, 1)
		if !s.serve(i, q, func(a answer) { answers <- a }) {
			return answer{}, errNoOwner
		}
		select {
		case a := <-answers:
			return a, nil
		case <-ctx.Done():
			return answer{}, context.Cause(ctx)
		}
	}
	origin := s.peers.owner(time.Now(), i)
	if origin == "" {
		return answer{}, errNoOwner
	}
	s.stats.forwarded.Add(1)
	call := q.span.Call("decision at owner")
	if call != nil {
		defer call.End()
		call.Set("weir.node", origin)
	}
	msg, err := s.conn.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject(origin, i), Data: q.append(nil), Header: call.Header()})
	if err != nil {
		call.Fail("no answer")
		return answer{}, err
	}
	if len(msg.Data) == 0 {
		return answer{}, errNoOwner
	}
	return readAnswer(msg.Data, q)
}

// maxWaiting bounds the questions of a group that wait to be read.
const maxWaiting, maxWaitingBytes = 10_000, 16 << 20

// subject takes the questions about a group to the node of an origin. The node reads them whether it is the owner or not: a question that
// crosses a handover is answered, and asked again.
func subject(origin string, group int) string {
	return fmt.Sprintf("weir.limits.%s.%02d", origin, group)
}

// answer decides what another node asks. While this node does not decide for the group the answer is empty, and the node asks
// again.
func (s *owners) answer(i int, msg *nats.Msg) {
	q, err := readQuestion(msg.Data)
	if err != nil {
		s.cfg.Logger.Warn("limits: could not decode the question of another node; check that all nodes run the same version", "error", err)
		return
	}
	span := s.cfg.Tracer.Begin("decision for a node", msg.Header)
	if span != nil {
		span.Set("weir.node", q.node)
	}
	if !s.serve(i, q, func(a answer) { s.respond(msg, a.append(nil, q)); span.End() }) {
		s.respond(msg, nil)
		span.End()
	}
}

func (s *owners) respond(msg *nats.Msg, answer []byte) {
	if err := msg.Respond(answer); err != nil {
		s.cfg.Logger.Warn("limits: could not send an answer to another node", "error", err)
	}
}

// changedSubject takes the names of limits and the keys that may have more of them than before. A message is the name, with its length before
// it, and the key.
const changedSubject = "weir.limits.changed"

// changed tells all nodes, this one too, that a key may have more of the limit of a name than before.
func (s *owners) changed(name, key string) {
	if err := s.conn.Publish(changedSubject, append(wire.AppendText(nil, name), key...)); err != nil {
		s.cfg.Logger.Debug("limits: could not announce a change; the other nodes follow it within two seconds", "error", err)
	}
}

func (s *owners) resume(msg *nats.Msg) {
	r := wire.NewReader(msg.Data)
	if name := r.Text(engine.MaxLimitNameBytes); !r.Failed() {
		s.limits.resume(name, string(r.Rest()))
	}
}
