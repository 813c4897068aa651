package strict

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-counter/weir/cluster/lease"
)

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
	var came [lease.Groups]uint64 // tokens
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
func (s *Strict) holds(g *group) (token uint64, ok bool) {
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

func (s *Strict) unsubscribe(g *group) {
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
	s.decide(i, q, func(a answer) { s.respond(msg, a.encode()) })
}

func (s *Strict) respond(msg *nats.Msg, answer []byte) {
	if err := msg.Respond(answer); err != nil {
		s.cfg.Logger.Warn("strict limits: could not send an answer to another node", "error", err)
	}
}
