package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
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
// for them by number, many at once and the next before it has these (ahead.go), which
// any replica answers, this node's own first of all: a consumer lives on one server and
// is silent for ten seconds when that one dies. While nobody answers it asks less often;
// what was missed comes then.
func (j *Journal) runFollower(ctx context.Context) {
	f := &follower{j: j, asker: newAsker()}
	defer f.asker.close()
	for ctx.Err() == nil {
		now := time.Now()
		f.ahead.tell(j.told.last.Load())
		f.ask(now)
		if f.apply(ctx, now) {
			f.hear() // what came meanwhile, so that asks go on
			continue
		}
		f.await(ctx)
	}
}

// follower is the state of the goroutine that follows.
type follower struct {
	j     *Journal
	ahead ahead
	asker *asker
	wait  time.Duration // after a message that could not be applied; 0: there is none
	until time.Time     // of it
}

// ask asks for as much as there is room for.
func (f *follower) ask(now time.Time) {
	for of := f.ahead.silent(now); of != nil; of = f.ahead.silent(now) {
		f.asker.giveUp(of)
		f.failed(f.ahead.fail(now, of), nats.ErrTimeout)
	}
	next := f.j.replica.next()
	for {
		want, ok := f.ahead.want(now, next)
		if !ok {
			return
		}
		of := f.ahead.begin(now, want)
		if err := f.asker.send(f.j.store.at.Load().js.Conn(), of); err != nil {
			f.failed(f.ahead.fail(now, of), err)
		}
	}
}

func (f *follower) failed(first bool, err error) {
	if first {
		f.j.log.Warn("journal: could not read the journal of the other nodes; will retry", "error", err)
	}
}

// apply applies the message whose turn it is, and tells whether there was one.
func (f *follower) apply(ctx context.Context, now time.Time) bool {
	if now.Before(f.until) {
		return false
	}
	sequence, data, ok := f.ahead.turn(f.j.replica.next())
	if !ok {
		return false
	}
	err := f.j.followOne(ctx, sequence, data)
	if err == nil {
		f.wait, f.until = 0, time.Time{}
		return true
	}
	f.ahead.keep(sequence, data)
	if errors.Is(err, errLeftBehind) {
		f.j.fail(err)
	}
	f.failed(f.wait == 0 && ctx.Err() == nil, err)
	f.wait = min(2*max(f.wait, followEvery), retryMost)
	f.until = time.Now().Add(f.wait)
	return true
}

// hear takes what has come, without waiting.
func (f *follower) hear() {
	for {
		select {
		case msg := <-f.asker.answers:
			f.take(msg)
		default:
			return
		}
	}
}

// await waits until something comes, or is due.
func (f *follower) await(ctx context.Context) {
	now := time.Now()
	due := f.ahead.due(now)
	if f.until.After(now) && (due.IsZero() || f.until.Before(due)) {
		due = f.until
	}
	var timer <-chan time.Time
	if !due.IsZero() {
		timer = time.After(due.Sub(now))
	}
	select {
	case <-ctx.Done():
	case <-timer:
	case <-f.j.told.news:
	case msg := <-f.asker.answers:
		f.take(msg)
		f.hear()
	}
}

func (f *follower) take(msg *nats.Msg) {
	f.failed(f.asker.deliver(&f.ahead, time.Now(), f.j.replica.next(), msg))
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
	if others > 0 {
		j.snapshots.kept.Add(int64(others + messageBytes))
	}
	for _, found := range j.replica.newFindings() {
		j.stats.divergences.Add(1)
		j.log.Error("journal: hits of another node are missing here", "finding", found.String())
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
		a.j.log.Error("journal: the leader of the journal can't read a message that another node has: restart the leader, so that it finds and copies all that is damaged",
			"message", sequence, "leader", a.j.leader())
		return data, nil
	}
	a.j.log.Error("journal: no replica has a message; asking its origin to resend it", "message", sequence)
	return nil, errLost
}

func (a asked) resend(of life, flush, part uint64) ([]byte, error) {
	data, err := a.j.askResend(a.ctx, of, flush, part)
	if err != nil {
		a.j.log.Warn("journal: could not get a missing flush from its origin", "origin", fmt.Sprintf("%016x", of.origin), "flush", flush, "error", err)
	}
	return data, err
}
