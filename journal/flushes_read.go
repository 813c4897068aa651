package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/stream"
	"github.com/weir-counter/weir/journal/tail"
)

// ErrTrimmed is why flushes can't be read on from a position: the journal begins after it.
var ErrTrimmed = errors.New("the journal was trimmed beyond the position")

// ID is the journal's identity, which all its nodes know.
func (j *Journal) ID() uint64 { return j.store.ID() }

// Bounds are the first and the last message of the journal; an empty one has first = last+1.
func (j *Journal) Bounds(ctx context.Context) (first, last uint64, err error) {
	first, last, _, err = j.store.Bounds(ctx)
	return first, last, err
}

// Moment returns a message of the journal and a time: all hits that any node took until then are in
// the flushes up to that message, but for those of the nodes that are late.
func (j *Journal) Moment(ctx context.Context) (upTo uint64, asOf time.Time, late []replica.OriginStatus, err error) {
	if j.others != nil {
		asOf, late = j.Freshness()
		return j.Followed(), asOf, late, nil
	}
	asOf = j.now()
	if err := j.Sync(ctx); err != nil {
		return 0, asOf, nil, err
	}
	_, upTo, err = j.Bounds(ctx)
	return upTo, asOf, nil, err
}

// readSingly is up to how many messages are read one by one: to begin a longer read takes a
// round trip or two of its own.
const readSingly = 256

// ReadFlushes reads the journal from where t stands up to a message, and calls f with each whole
// flush, in order. What f returns ends it; it goes on after that flush when it is called again.
// What is missing is asked for; what nobody has any more is passed over, and counted in t.Lost. The
// error wraps ErrTrimmed if the journal begins after t.
func (j *Journal) ReadFlushes(ctx context.Context, t *tail.Flushes, upTo uint64, f func(flush []record.Part) error) error {
	if t.Next() > upTo {
		return nil
	}
	first, _, err := j.Bounds(ctx)
	if err != nil {
		return err
	}
	if t.Next() < first {
		return fmt.Errorf("%w: message %d is wanted, the first is %d", ErrTrimmed, t.Next(), first)
	}
	if upTo-t.Next() >= readSingly {
		if err := j.store.Read(ctx, t.Next(), upTo, func(message uint64, data []byte) error {
			return j.takeFlush(ctx, t, message, data, f)
		}); err != nil {
			return err
		}
	}
	for t.Next() <= upTo {
		message := t.Next()
		data, err := j.message(ctx, message)
		if errors.Is(err, replica.ErrLost) {
			t.Skip(message)
			continue
		}
		if err != nil {
			return err
		}
		if err := j.takeFlush(ctx, t, message, data, f); err != nil {
			return err
		}
	}
	return nil
}

// message reads one, from any replica; it wraps ErrLost if nobody has it.
func (j *Journal) message(ctx context.Context, sequence uint64) ([]byte, error) {
	if j.others != nil {
		return j.others.lost.Source(ctx).Message(sequence)
	}
	var data []byte
	err := stream.RetryUnavailable(ctx, func(ctx context.Context) (err error) {
		data, err = j.store.Get(ctx, sequence)
		return err
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = replica.ErrLost
	}
	return data, err
}

// takeFlush takes a message, and before it what should have come and did not.
func (j *Journal) takeFlush(ctx context.Context, t *tail.Flushes, message uint64, data []byte, f func([]record.Part) error) error {
	p, err := record.DecodePart(data)
	if errors.Is(err, record.ErrDamaged) {
		t.Skip(message)
		return nil
	}
	if err != nil {
		return fmt.Errorf("journal message %d: %w", message, err)
	}
	for j.others != nil {
		flush, number, missing := t.Missing(p)
		if !missing {
			break
		}
		again, err := j.resent(ctx, p.Incarnation, flush, number)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			break // t counts it
		}
		if whole := t.Take(message-1, again); whole != nil {
			if err := f(whole); err != nil {
				return err
			}
		}
	}
	if whole := t.Take(message, p); whole != nil {
		return f(whole)
	}
	return nil
}

// resent asks an origin for a part of a flush, which may be this node.
func (j *Journal) resent(ctx context.Context, of record.Incarnation, flush, number uint64) (p record.Part, err error) {
	data := []byte(nil)
	if of == j.own {
		data = j.replica.Sent(flush, number)
	}
	if data == nil {
		if data, err = j.others.lost.Source(ctx).Resend(of, flush, number); err != nil {
			return p, err
		}
	}
	if p, err = record.DecodePart(data); err == nil && (p.Incarnation != of || p.Flush != flush || p.Number != number) {
		err = fmt.Errorf("%w: it is another part", record.ErrDamaged)
	}
	return p, err
}

// StoredSnapshots are those of a partition, the newest first; those that are damaged are left out.
func (j *Journal) StoredSnapshots(ctx context.Context, partition int) ([]record.StoredSnapshot, error) {
	list, _, err := j.store.SlotsOf(ctx, partition)
	return list, err
}

// ReadSnapshot reads and checks one. The error wraps record.ErrDamaged if it can't be used.
func (j *Journal) ReadSnapshot(ctx context.Context, stored record.StoredSnapshot) (record.Snapshot, error) {
	return j.store.GetSnapshot(ctx, stored)
}
