package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/engine/side"
	"github.com/weir-counter/weir/internal/wire"
)

// decide answers a question, at once or after the journal has it, or never. It returns false, and answers nothing, if this
// node does not decide for the group.
func (s *Strict) decide(i int, q Question, tell func(strictAnswer)) bool {
	token, ok := s.holds(i)
	if !ok {
		return false
	}
	if s.commits.full() {
		s.stats.refused.Add(1)
		return true
	}
	a, err := s.take(i, q)
	if err != nil {
		tell(strictAnswer{err: err})
		return true
	}
	s.stats.decided.Add(1)
	if !q.Changes(a.Answer) {
		tell(a)
		return true
	}
	s.commits.add(commit{i, token, func() { tell(a) }, !a.Allowed})
	return true
}

// take decides on this node's engine.
func (s *Strict) take(i int, q Question) (a strictAnswer, err error) {
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

// commit answers admissions once they are in the journal, and the journal was followed up to there: no later claim came. All that come while one
// flush is written wait for the next together.
func (s *Strict) commit(ctx context.Context) {
	for {
		list := s.commits.take(ctx)
		if list == nil {
			return
		}
		syncing, cancel := context.WithTimeout(ctx, commitTime)
		sync := s.cfg.Journal.SyncFollowed
		if slices.ContainsFunc(list, func(c commit) bool { return c.empty }) {
			sync = s.cfg.Journal.CatchUp
		}
		err := sync(syncing)
		cancel()
		for _, c := range list {
			if c.group >= 0 {
				if token, ok := s.owns(c.group); err != nil || !ok || token != c.token {
					s.stats.lost.Add(1)
					continue
				}
			}
			c.tell()
		}
	}
}

// Decide is of admit.Strict: it takes or peeks at the holder of the keys' group.
// The error is a *weir.Error of the holder's engine.
func (s *Strict) Decide(asked []weir.Check, verdicts []weir.Verdict, take bool) (allowed, answered bool, err error) {
	i := s.Group(asked[0].Key)
	a, err := s.ask(i, Ask(asked, take))
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
func (s *Strict) Change(c side.Change, of weir.Check) (made side.Changed, answered bool, err error) {
	a, err := s.askAgain(s.Group(of.Key), AskChange(c, of))
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
func (s *Strict) ask(i int, q Question) (a strictAnswer, err error) {
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
func (s *Strict) askAgain(i int, q Question) (a strictAnswer, err error) {
	defer s.changing.Add(-1)
	again := s.changing.Add(1) <= maxChanging
	ctx, cancel := context.WithTimeout(s.life, changeTime)
	defer cancel()
	for wait := s.cfg.Deadline; ; wait *= 2 {
		err = s.within(ctx, wait, i, func(ctx context.Context) error {
			a, err = s.askHolder(ctx, i, q)
			return err
		})
		if err == nil || errors.Is(err, strictErrWire) || !again {
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

// within asks the owner of a group, whether it answered a moment ago or not. While nobody says that it is the owner, it
// asks again for ownerTime.
func (s *Strict) within(ctx context.Context, d time.Duration, i int, ask func(ctx context.Context) error) (err error) {
	began := time.Now()
	for {
		err = s.once(ctx, d, ask)
		if !errors.Is(err, errNoOwner) && !errors.Is(err, nats.ErrNoResponders) || ctx.Err() != nil {
			break
		}
		if time.Since(began) >= ownerTime {
			err = context.DeadlineExceeded
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(keepEvery / 4):
		}
	}
	s.groups[i].breaker.leave(began, time.Now(), err == nil, errors.Is(err, context.DeadlineExceeded))
	return err
}

func (s *Strict) once(ctx context.Context, d time.Duration, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return ask(ctx)
}

// errNoOwner is an answer of a node that is not the owner any more, or not yet: it took nothing.
var errNoOwner = errors.New("the node that was asked does not decide for the key")

var errResting = errors.New("the node that decides did not answer a moment ago; asking it again shortly")

func (s *Strict) askHolder(ctx context.Context, i int, q Question) (strictAnswer, error) {
	if _, ok := s.holds(i); ok {
		told := make(chan strictAnswer, 1)
		if !s.decide(i, q, func(a strictAnswer) { told <- a }) {
			return strictAnswer{}, errNoOwner
		}
		select {
		case a := <-told:
			return a, nil
		case <-ctx.Done():
			return strictAnswer{}, context.Cause(ctx)
		}
	}
	s.stats.forwarded.Add(1)
	msg, err := s.conn.RequestWithContext(ctx, subject(i), encode(q))
	if err != nil {
		return strictAnswer{}, err
	}
	if len(msg.Data) == 0 {
		return strictAnswer{}, errNoOwner
	}
	return decodeAnswer(msg.Data, len(q.Checks))
}

// maxWaiting bounds the questions of a group that wait to be read.
const maxWaiting, maxWaitingBytes = 10_000, 16 << 20

func subject(group int) string { return fmt.Sprintf("weir.strict.%02d", group) }

// listen subscribes to the questions of a group that this node decides, and to no others: a node that asks then knows at once
// that there is nobody.
func (s *Strict) listen(i int) {
	g := &s.groups[i]
	g.listening.Lock()
	defer g.listening.Unlock()
	_, ok := s.holds(i)
	switch {
	case !ok && g.answering != nil:
		if err := g.answering.Unsubscribe(); err != nil {
			s.cfg.Logger.Warn("limits: could not unsubscribe", "group", g.name, "error", err)
		}
		g.answering = nil
	case ok && g.answering == nil:
		sub, err := s.conn.Subscribe(subject(i), func(msg *nats.Msg) { s.answer(i, msg) })
		if err == nil {
			err = sub.SetPendingLimits(maxWaiting, maxWaitingBytes)
		}
		if err != nil {
			s.cfg.Logger.Warn("limits: could not subscribe; will retry", "group", g.name, "error", err)
			return
		}
		g.answering = sub
	}
}

// answer decides what another node asks. While this node does not decide for the group the answer is empty, and the node asks
// again.
func (s *Strict) answer(i int, msg *nats.Msg) {
	if len(msg.Data) > 0 && msg.Data[0] == lenderVersion {
		if !s.serve(i, msg.Data[1:], func(b []byte) { s.respond(msg, b) }) {
			s.respond(msg, nil)
		}
		return
	}
	q, err := decodeQuestion(msg.Data)
	if err != nil {
		s.cfg.Logger.Warn("strict limits: could not decode the question of another node; check that all nodes run the same version", "error", err)
		return
	}
	if !s.decide(i, q, func(a strictAnswer) { s.respond(msg, a.encode()) }) {
		s.respond(msg, nil)
	}
}

func (s *Strict) respond(msg *nats.Msg, answer []byte) {
	if err := msg.Respond(answer); err != nil {
		s.cfg.Logger.Warn("strict limits: could not send an answer to another node", "error", err)
	}
}

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
	if _, ok := s.holds(i); ok {
		told := make(chan []byte, 1)
		if !s.serve(i, question, func(b []byte) { told <- b }) {
			return nil, errNoOwner
		}
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
	if len(msg.Data) == 0 {
		return nil, errNoOwner
	}
	return msg.Data, nil
}

// serve has the Lender answer, at once or once the journal has it, or never. It returns false as decide does.
func (s *Strict) serve(i int, question []byte, tell func([]byte)) bool {
	token, ok := s.holds(i)
	if !ok {
		return false
	}
	if s.commits.full() {
		s.stats.refused.Add(1)
		return true
	}
	answer, commit := s.cfg.Lender.Serve(i, token, question)
	switch {
	case answer == nil:
	case commit:
		s.commits.add(commitOf(i, token, answer, tell))
	default:
		tell(answer)
	}
	return true
}

func commitOf(group int, token uint64, answer []byte, tell func([]byte)) commit {
	return commit{group, token, func() { tell(answer) }, false}
}

// changedSubject takes the names of limits and the keys that may have more of them than before: the name with its length before it, the key.
const changedSubject = "weir.limits.changed"

// Changed is of LeasedHolder.
func (s *Strict) Changed(name, key string) {
	if err := s.conn.Publish(changedSubject, append(wire.AppendText(nil, name), key...)); err != nil {
		s.cfg.Logger.Debug("limits: could not announce a change; the other nodes follow it within two seconds", "error", err)
	}
}

func (s *Strict) resume(msg *nats.Msg) {
	r := wire.NewReader(msg.Data)
	if name := r.Text(weir.MaxLimitNameBytes); !r.Failed() {
		s.cfg.Lender.Resume(name, string(r.Rest()))
	}
}

// alone is the Lender of a Strict without one.
type alone struct{ engine *weir.Engine }

func (alone) Learn(int, uint64) {}

func (a alone) Decide(_ int, q Question) (Answer, error) { return q.Decide(a.engine) }

func (alone) Recall(int, bool) (granted uint64) { return 0 }

func (alone) GiveBack([]int) {}

func (alone) Resume(string, string) {}

func (alone) Serve(int, uint64, []byte) (answer []byte, commit bool) { return nil, false }

// A question is a byte, the version 1, and a Question. An answer, texts with
// their length before them:
//
//	byte 0     version, 1
//	byte 1     0: decided, or 1: an error
//	           decided: a Answer
//	           an error: code, field, message
//
// A question whose first byte is lenderVersion is a Lender's, whose own bytes follow; so is its answer.
const (
	wireVersion   = 1
	lenderVersion = 2
)

var strictErrWire = errors.New("could not decode the message: check that all nodes run the same version of Weir")

func encode(q Question) []byte { return q.Append([]byte{wireVersion}) }

func decodeQuestion(b []byte) (q Question, err error) {
	r := wire.NewReader(b)
	if r.Byte() != wireVersion {
		return q, strictErrWire
	}
	q = ReadQuestion(r)
	return q, strictDone(r)
}

// strictAnswer is a decision, or why there is none.
type strictAnswer struct {
	Answer
	err error
}

func (a strictAnswer) encode() []byte {
	if a.err == nil {
		return a.Append([]byte{wireVersion, 0})
	}
	of := &weir.Error{Code: weir.CodeInvalidLimit, Field: "limit", Message: a.err.Error()}
	errors.As(a.err, &of)
	b := wire.AppendText([]byte{wireVersion, 1}, string(of.Code))
	return wire.AppendText(wire.AppendText(b, of.Field), of.Message)
}

// decodeAnswer reads the answer to a question of so many checks.
func decodeAnswer(b []byte, asked int) (a strictAnswer, err error) {
	r := wire.NewReader(b)
	if r.Byte() != wireVersion {
		return a, strictErrWire
	}
	if r.Bool() {
		a.err = &weir.Error{Code: weir.Code(r.Text(len(b))), Field: r.Text(len(b)), Message: r.Text(len(b))}
	} else {
		a.Answer = ReadAnswer(r, asked)
	}
	return a, strictDone(r)
}

// strictDone tells whether all was read.
func strictDone(r *wire.Reader) error {
	if !r.Done() {
		return strictErrWire
	}
	return nil
}
