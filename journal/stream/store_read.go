package stream

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// fetchWait is how long the next message may take to come before it is asked for
// by its number.
const fetchWait = 250 * time.Millisecond

// Read calls f with each message of the journal from one sequence to another, in
// order. Those the server can't read are passed over in silence: f sees it by
// the sequences.
func (s *Store) Read(ctx context.Context, from, last uint64, f func(sequence uint64, data []byte) error) error {
	return retryWhileUnavailable(ctx, func() error {
		return s.readOn(ctx, &from, last, f)
	})
}

// readOn reads from next on, and leaves in next where to go on after an error.
func (s *Store) readOn(ctx context.Context, next *uint64, last uint64, f func(sequence uint64, data []byte) error) (err error) {
	if *next > last {
		return nil
	}
	flushes := s.at.Load().flushes
	var consumer jetstream.Consumer
	err = askWithin(ctx, AskTime, func(ctx context.Context) (err error) {
		consumer, err = flushes.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
			OptStartSeq:   *next,
			// Else a fetch would try to make it again for ever, whatever ctx says.
			MaxResetAttempts: maxResets,
		})
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		if !IsUnavailable(err) { // else it goes by itself, after five idle minutes
			s.removeConsumer(ctx, flushes, consumer)
		}
	}()
	for *next <= last {
		before := *next
		batch, err := consumer.Fetch(fetchMessages, jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			return err
		}
		for msg := range batch.Messages() {
			meta, err := msg.Metadata()
			if err != nil {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if sequence := meta.Sequence.Stream; sequence <= last {
				if err := f(sequence, msg.Data()); err != nil {
					return err
				}
				*next = sequence + 1
			}
			if meta.Sequence.Stream >= last {
				return nil
			}
		}
		if err := batch.Error(); err != nil && !errors.Is(err, jetstream.ErrNoMessages) {
			return err
		}
		if *next == before { // the server counts messages that it can't read
			return s.readSingly(ctx, next, last, f)
		}
	}
	return nil
}

// removeConsumer ends a consumer that has read all: on the server it would hold memory
// and three goroutines for five minutes more, for each backup that somebody takes.
func (s *Store) removeConsumer(ctx context.Context, stream jetstream.Stream, consumer jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AskTime)
	defer cancel()
	if info := consumer.CachedInfo(); info != nil {
		_ = stream.DeleteConsumer(ctx, info.Name) // else it goes by itself
	}
}

// maxResets is how often a consumer that was lost is made again within a fetch; then
// retryWhileUnavailable decides.
const maxResets = 3

// fetchMessages bounds what is read ahead: some 40 MiB of the largest messages.
const fetchMessages = 64

// readSingly asks for each message by its number.
func (s *Store) readSingly(ctx context.Context, next *uint64, last uint64, f func(sequence uint64, data []byte) error) error {
	for ; *next <= last; *next++ {
		var data []byte
		err := askWithin(ctx, AskTime, func(ctx context.Context) (err error) {
			data, err = s.Get(ctx, *next)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && IsUnavailable(err):
			return err
		case err == nil:
			if err := f(*next, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// Get reads one message, from any replica, or from the leader if that one does
// not have it.
func (s *Store) Get(ctx context.Context, sequence uint64) ([]byte, error) {
	msg, err := s.at.Load().flushes.GetMsg(ctx, sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		_, data, err := s.at.Load().fromLeader(ctx, FlushStream, wanted{Sequence: sequence})
		return data, err
	}
	if err != nil {
		return nil, err
	}
	return msg.Data, nil
}

// GetNear reads one message from any replica, this node's own if it has one: what that one
// does not have, is not found.
func (s *Store) GetNear(ctx context.Context, sequence uint64) ([]byte, error) {
	msg, err := s.at.Load().flushes.GetMsg(ctx, sequence)
	if err != nil {
		return nil, err
	}
	return msg.Data, nil
}
