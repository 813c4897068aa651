package peers

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/journal/groupcommit"
	"github.com/weir-counter/weir/journal/replica"
)

// Run makes the rounds, until ctx ends.
func (f *Freshness) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			f.finish(context.Cause(ctx))
			return
		case <-f.kick:
		}
		began := time.Now()
		f.runRound(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(began.Add(freshApart))):
		}
	}
}

func (f *Freshness) runRound(ctx context.Context) {
	within, giveUp := context.WithCancel(ctx)
	defer giveUp()
	round := f.take(giveUp)
	if round == nil {
		return
	}
	round.moment, round.err = f.round(within)
	f.rounds.Add(1)
	if round.err != nil {
		f.failed.Add(1)
	}
	close(round.done)
}

// round is one round. It ends without a result only when nobody waits for it,
// or the journal closes.
func (f *Freshness) round(ctx context.Context) (m Moment, err error) {
	f.number++
	own := f.Flushes.JoinSpeaking()
	again := time.NewTicker(freshAgain)
	defer again.Stop()
	said := map[string]bool{} // by origin
	for ask, flushed := true, false; ; {
		if ask {
			if err := f.ask(f.number); err != nil {
				return m, err
			}
			ask = false
		}
		switch missing := f.notSaid(said); {
		case !flushed:
			f.waitsFor("the journal has not acknowledged a flush", append(missing, f.Node)...)
		case len(missing) > 0:
			f.waitsFor("they have not said that all they took is in the journal", missing...)
		case f.Next() <= m.UpTo:
			f.waitsFor("this node has not yet followed the journal so far", f.Node)
			f.HighWater.Hear(m.UpTo)
			if err := f.AwaitFollowed(ctx, m.UpTo); err != nil {
				return m, err
			}
			continue // and now knows all nodes
		default:
			m.Now = replica.Later(m.Now, f.Now())
			return m, nil
		}
		var acknowledged <-chan struct{}
		if !flushed {
			acknowledged = own.Done
		}
		select {
		case <-acknowledged:
			if errors.Is(own.Err, groupcommit.ErrFull) { // the others have the same journal
				return m, &NotFreshError{[]string{f.Node}, "the journal is full, and takes nothing before it is trimmed"}
			}
			if own.Err != nil {
				return m, own.Err
			}
			flushed, m.UpTo = true, max(m.UpTo, own.Last)
		case a := <-f.answers:
			if a.round == f.number { // else it is one of a round before
				said[a.origin] = true
				m.UpTo, m.Now = max(m.UpTo, a.upTo), replica.Later(m.Now, a.now)
			}
		case <-again.C:
			ask = true
		case <-ctx.Done():
			return m, context.Cause(ctx)
		}
	}
}

// notSaid are the nodes that may have taken hits and have not said up to where
// they are in the journal, by name. One that was restarted after it said so has taken
// the rest since.
func (f *Freshness) notSaid(said map[string]bool) (missing []string) {
	for _, o := range f.Origins() {
		if !o.Self && !o.Left && !said[o.Origin] {
			missing = append(missing, cmp.Or(o.Node, o.Origin))
		}
	}
	return slices.Compact(missing) // by name
}

// ask asks all nodes.
func (f *Freshness) ask(number uint64) error {
	ask := binary.AppendUvarint(binary.LittleEndian.AppendUint64(nil, f.Origin), number)
	err := f.Conn.PublishRequest(freshSubject, fmt.Sprintf("%s.%d", f.inbox, number), ask)
	if err != nil && !errors.Is(err, nats.ErrConnectionReconnecting) && !errors.Is(err, nats.ErrReconnectBufExceeded) {
		return fmt.Errorf("ask the other nodes to flush: %w", err)
	}
	return nil
}
