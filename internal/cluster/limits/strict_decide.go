package limits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/engine/side"
	"github.com/weir-counter/weir/internal/wire"
)

// decide answers a question, at once or after the journal has it, or never.
func (s *Strict) decide(i int, q Question, tell func(strictAnswer)) {
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
		tell(strictAnswer{err: err})
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

func (s *Strict) askHolder(ctx context.Context, i int, q Question) (strictAnswer, error) {
	if _, ok := s.holds(&s.groups[i]); ok {
		told := make(chan strictAnswer, 1)
		s.decide(i, q, func(a strictAnswer) { told <- a })
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
	return decodeAnswer(msg.Data, len(q.Checks))
}

const (
	// keepEvery is how often the keeper looks for leases that came or went.
	keepEvery = 20 * time.Millisecond

	// catchUpTime bounds one attempt; it is made again while the lease is held.
	catchUpTime = 10 * time.Second

	// maxWaiting bounds the questions of a group that wait to be read.
	maxWaiting, maxWaitingBytes = 10_000, 16 << 20
)

func subject(group int) string { return fmt.Sprintf("weir.strict.%02d", group) }

// keep answers for the groups whose leases are held, as soon as all is known.
func (s *Strict) keep(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		s.learn(ctx)
		for i := range s.groups {
			s.listen(i)
		}
		select {
		case <-ctx.Done():
			for i := range s.groups {
				s.groups[i].ready.Store(0)
				s.unsubscribe(&s.groups[i])
			}
			return
		case <-tick.C:
		}
	}
}

// learn makes groups ready whose leases came since.
func (s *Strict) learn(ctx context.Context) {
	var came [kv.Groups]uint64 // tokens
	some := false
	for i := range s.groups {
		g := &s.groups[i]
		if l, _, ok := s.leases.Held(g.name); ok && l.Token != g.ready.Load() {
			came[i], some = l.Token, true
		}
	}
	if !some {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	if err := s.cfg.Journal.CatchUp(ctx); err != nil {
		if ctx.Err() == nil || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			s.cfg.Logger.Warn("strict limits: this node has leases but could not read yet what others admitted; will retry", "error", err)
		}
		return
	}
	for i, token := range came {
		if token != 0 {
			s.cfg.Lender.Learn(i, token)
			s.groups[i].ready.Store(token)
		}
	}
}

// holds returns the token of a group's lease, if this node has it and knows all.
func (s *Strict) holds(g *strictGroup) (token uint64, ok bool) {
	token = g.ready.Load()
	if token == 0 || !s.cfg.Journal.ClockSound() {
		return 0, false
	}
	l, _, ok := s.leases.Held(g.name)
	return token, ok && l.Token == token
}

// listen subscribes to the questions of a group that we decide, and to no others:
// who asks then knows at once that there is nobody.
func (s *Strict) listen(i int) {
	g := &s.groups[i]
	_, ok := s.holds(g)
	switch {
	case !ok:
		s.unsubscribe(g)
	case g.answering == nil:
		sub, err := s.conn.Subscribe(subject(i), func(msg *nats.Msg) { s.answer(i, msg) })
		if err == nil {
			err = sub.SetPendingLimits(maxWaiting, maxWaitingBytes)
		}
		if err != nil {
			s.cfg.Logger.Warn("strict limits: could not subscribe; will retry", "group", g.name, "error", err)
			return
		}
		g.answering = sub
		s.cfg.Logger.Debug("strict limits: deciding for a group", "group", g.name)
	}
}

func (s *Strict) unsubscribe(g *strictGroup) {
	if g.answering == nil {
		return
	}
	if err := g.answering.Unsubscribe(); err != nil {
		s.cfg.Logger.Warn("strict limits: could not unsubscribe", "group", g.name, "error", err)
	}
	g.answering = nil
}

// answer decides what another node asks. One that is not ours gets no answer.
func (s *Strict) answer(i int, msg *nats.Msg) {
	if len(msg.Data) > 0 && msg.Data[0] == lenderVersion {
		s.serve(i, msg.Data[1:], func(b []byte) { s.respond(msg, b) })
		return
	}
	q, err := decodeQuestion(msg.Data)
	if err != nil {
		s.cfg.Logger.Warn("strict limits: could not decode the question of another node; check that all nodes run the same version", "error", err)
		return
	}
	s.decide(i, q, func(a strictAnswer) { s.respond(msg, a.encode()) })
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

func commitOf(g *strictGroup, token uint64, answer []byte, tell func([]byte)) commit {
	return commit{g, token, func() { tell(answer) }}
}

// alone is the Lender of a Strict without one.
type alone struct{ engine *weir.Engine }

func (alone) Learn(int, uint64) {}

func (a alone) Decide(_ int, q Question) (Answer, error) { return q.Decide(a.engine) }

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
