package limits

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/api"
)

// This file has one node keep the counters of Redis commands (internal/engine/counters): the owner of one group, so that
// commands, scripts and transactions on any keys are one step. A request is bytes that the RESP listener makes and reads.
// It goes to the owner once, in one message: to increment twice would be wrong.

// countersGroup is the group whose owner keeps the counters.
const countersGroup = 0

const countersSubject = "weir.counters." // the origin of the node follows

// Counters is the side of the RESP listener.
type Counters struct {
	owners *owners
	serve  atomic.Pointer[func(request []byte) (reply []byte, wrote bool)] // nil: nobody serves yet
}

// Counters has the owner run what the listener sends, and this node what others send.
func (l *Limits) Counters() *Counters { return &l.owners.counters }

// Serve has this node run requests with f while it is the owner. wrote says that counters changed.
func (c *Counters) Serve(f func(request []byte) (reply []byte, wrote bool)) { c.serve.Store(&f) }

// Run has the owner run a request. A change is in the journal before Run returns. After an error of
// api.CodeOwnerUnreachable the request was not run; after another one, that is not known.
func (c *Counters) Run(request []byte) (reply []byte, err error) {
	s, sent, crowded := c.owners, false, false
	err = errResting
	if s.groups[countersGroup].breaker.enter(time.Now()) {
		err = s.within(s.life, changeTime, countersGroup, func(ctx context.Context) (err error) {
			reply, err = c.ask(ctx, request)
			if crowded = errors.Is(err, errCrowded); crowded {
				return nil // the owner has answered
			}
			sent = err != nil && !errors.Is(err, errNoOwner) && !errors.Is(err, nats.ErrNoResponders)
			return err
		})
	}
	switch {
	case crowded:
		return nil, &api.Error{Code: api.CodeOverloaded, Message: "10,000 changes of counters are waiting for the journal: the command was not run; retry in a second"}
	case err == nil:
		return reply, nil
	}
	s.stats.unanswered.Add(1)
	if sent {
		return nil, &api.Error{Code: api.CodeNotDurable, Message: "the node with the counters did not answer in time, and the command may have run: read the counter before you repeat it"}
	}
	return nil, &api.Error{Code: api.CodeOwnerUnreachable, Message: "the node with the counters can't be reached: the command was not run"}
}

func (c *Counters) ask(ctx context.Context, request []byte) ([]byte, error) {
	s := c.owners
	if _, ok := s.holds(countersGroup); ok {
		replies := make(chan []byte, 1)
		if err := c.run(request, func(reply []byte) { replies <- reply }); err != nil {
			return nil, err
		}
		select {
		case reply := <-replies:
			return reply, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	origin := s.peers.owner(time.Now(), countersGroup)
	if origin == "" {
		return nil, errNoOwner
	}
	s.stats.forwarded.Add(1)
	msg, err := s.conn.RequestWithContext(ctx, countersSubject+origin, request)
	switch {
	case err != nil:
		return nil, err
	case len(msg.Data) == 0:
		return nil, errNoOwner
	case msg.Data[0] == isCrowded:
		return nil, errCrowded
	}
	return msg.Data[1:], nil
}

// The first byte of an answer.
const (
	isReply   = 1 // the reply follows
	isCrowded = 2 // nothing was run, because too many changes wait for the journal
)

var errCrowded = errors.New("too many changes of counters wait for the journal")

// run runs a request, and answers with the reply at once, or after the journal has the change, or never. After an error nothing
// was run: errNoOwner, if this node does not keep the counters, or errCrowded.
func (c *Counters) run(request []byte, answer func(reply []byte)) error {
	s, f := c.owners, c.serve.Load()
	token, ok := s.holds(countersGroup)
	if !ok || f == nil {
		return errNoOwner
	}
	if s.commits.full() {
		s.stats.refused.Add(1)
		return errCrowded
	}
	s.cfg.Engine.Counters().Lead(token)
	reply, wrote := (*f)(request)
	if s.stats.decided.Add(1); wrote {
		s.commit(commit{countersGroup, token, func() { answer(reply) }, false})
	} else {
		answer(reply)
	}
	return nil
}

// answer answers another node: with nothing if this one does not keep the counters, else with a byte and the reply.
func (c *Counters) answer(msg *nats.Msg) {
	switch err := c.run(msg.Data, func(reply []byte) { c.owners.respond(msg, append([]byte{isReply}, reply...)) }); {
	case errors.Is(err, errNoOwner):
		c.owners.respond(msg, nil)
	case errors.Is(err, errCrowded):
		c.owners.respond(msg, []byte{isCrowded})
	}
}
