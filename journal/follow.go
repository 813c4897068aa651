package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// followEvery is how often the follower looks for a message that it was not told
	// of, once it has all.
	followEvery = 100 * time.Millisecond

	// followSoon is when it looks again for one that it was told of, and followOn how often
	// in the end: another replica may have it first, or it may be lost.
	followSoon = 2 * time.Millisecond
	followOn   = 20 * time.Millisecond
)

// runFollower applies the messages after the last one, until ctx is done. It asks
// for them by number, which any replica answers, this node's own first of all:
// a consumer lives on one server and is silent for ten seconds when that one
// dies. While nobody answers it asks less often; what was missed comes then.
func (j *Journal) runFollower(ctx context.Context) {
	for wait := followEvery; ctx.Err() == nil; {
		err := j.followNext(ctx)
		switch {
		case err == nil:
			wait = 0
		case errors.Is(err, jetstream.ErrMsgNotFound):
			if j.told.last.Load() < j.replica.next() {
				wait = followEvery
			} else { // it is on its way to this replica, or lost
				wait = min(max(2*wait, followSoon), followOn)
			}
		default:
			if errors.Is(err, errLeftBehind) {
				j.fail(err)
			}
			if wait < retryMost && ctx.Err() == nil {
				j.log.Warn("journal: following the other nodes is interrupted, and tried again", "error", err)
			}
			wait = min(2*max(wait, followEvery), retryMost)
			select { // however much news there is: others that go on writing end no error
			case <-ctx.Done():
			case <-time.After(followEvery):
			}
		}
		if wait > 0 {
			select {
			case <-ctx.Done():
			case <-j.told.news: // whoever brought it can be asked, too
				if errors.Is(err, jetstream.ErrMsgNotFound) {
					wait = min(wait, followSoon)
				}
			case <-time.After(wait):
			}
		}
	}
}

// followNext applies the next message, or returns ErrMsgNotFound.
func (j *Journal) followNext(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, oneAsk)
	defer cancel()
	sequence, data, err := j.store.next(asking, j.replica.next())
	if err != nil {
		return err
	}
	return j.followOne(ctx, sequence, data)
}

// followOne applies the journal's message of a sequence, and those before it that
// did not come.
func (j *Journal) followOne(ctx context.Context, sequence uint64, data []byte) error {
	others, err := j.replica.follow(time.Now(), sequence, data, asked{ctx, j})
	j.followed(others)
	return err
}

// followTo applies all messages up to a sequence.
func (j *Journal) followTo(ctx context.Context, sequence uint64) error {
	others, err := j.replica.followTo(time.Now(), sequence, asked{ctx, j})
	j.followed(others)
	return err
}

// followed counts what was applied of other nodes, and logs what the audit found.
func (j *Journal) followed(others int) {
	j.snapshots.grown.Add(int64(others))
	j.snapshots.kept.Add(int64(others))
	for _, found := range j.replica.newFindings() {
		j.stats.divergences.Add(1)
		j.log.Error("journal: this node misses hits of another", "finding", found.String())
	}
}

// asked is what the other nodes are asked for.
type asked struct {
	ctx context.Context
	j   *Journal
}

func (a asked) message(sequence uint64) (data []byte, err error) {
	err = patiently(a.ctx, func(ctx context.Context) (err error) {
		data, err = a.j.store.get(ctx, sequence)
		return err
	})
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return data, err
	}
	first, _, _, err := a.j.store.bounds(a.ctx)
	switch {
	case err != nil:
		return nil, err
	case first > sequence:
		return nil, errLeftBehind
	}
	if data, err = a.j.askMessage(a.ctx, sequence); err == nil {
		a.j.log.Error("journal: the leader of the journal can't read a message, which another node has: restart the leader, so that it finds what else is damaged and copies it anew",
			"message", sequence, "leader", a.j.leader())
		return data, nil
	}
	a.j.log.Error("journal: a message is lost; its origin is asked", "message", sequence)
	return nil, errLost
}

func (a asked) resend(of life, flush, part uint64) ([]byte, error) {
	data, err := a.j.askResend(a.ctx, of, flush, part)
	if err != nil {
		a.j.log.Warn("journal: a missing flush could not be had from its origin", "origin", fmt.Sprintf("%016x", of.origin), "flush", flush, "error", err)
	}
	return data, err
}
