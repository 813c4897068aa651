package journal

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/journal/replica"
	"github.com/weir-counter/weir/journal/stream"
)

// runFollower applies the messages after the last one, until ctx is done. It asks
// for them by number, many at once and the next before it has these (replica.ReadAhead), which
// any replica answers, this node's own first of all: a consumer lives on one server and
// is silent for ten seconds when that one dies. While nobody answers it asks less often;
// what was missed comes then.
func (j *Journal) runFollower(ctx context.Context) {
	f := &follower{j: j, asker: stream.NewAsker()}
	defer f.asker.Close()
	for ctx.Err() == nil {
		now := time.Now()
		f.ahead.Hint(j.others.highWater.Last())
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
	ahead replica.ReadAhead
	asker *stream.Asker
	wait  time.Duration // after a message that could not be applied; 0: there is none
	until time.Time     // of it
}

// ask asks for as much as there is room for.
func (f *follower) ask(now time.Time) {
	for of := f.ahead.Silent(now); of != nil; of = f.ahead.Silent(now) {
		f.asker.GiveUp(of)
		f.failed(f.ahead.Fail(now, of), nats.ErrTimeout)
	}
	next := f.j.replica.Next()
	for {
		want, ok := f.ahead.Want(now, next)
		if !ok {
			return
		}
		of := f.ahead.Begin(now, want)
		if err := f.asker.Send(f.j.store.Conn(), of); err != nil {
			f.failed(f.ahead.Fail(now, of), err)
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
	sequence, data, ok := f.ahead.Turn(f.j.replica.Next())
	if !ok {
		return false
	}
	err := f.j.followOne(ctx, sequence, data)
	if err == nil {
		f.wait, f.until = 0, time.Time{}
		return true
	}
	f.ahead.Keep(sequence, data)
	if errors.Is(err, replica.ErrLeftBehind) {
		f.j.fail(err)
	}
	f.failed(f.wait == 0 && ctx.Err() == nil, err)
	f.wait = min(2*max(f.wait, replica.FollowEvery), replica.RetryMost)
	f.until = time.Now().Add(f.wait)
	return true
}

// hear takes what has come, without waiting.
func (f *follower) hear() {
	for {
		select {
		case msg := <-f.asker.Answers:
			f.deliver(msg)
		default:
			return
		}
	}
}

// await waits until something comes, or is due.
func (f *follower) await(ctx context.Context) {
	now := time.Now()
	due := f.ahead.Due(now)
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
	case <-f.j.others.highWater.News():
	case msg := <-f.asker.Answers:
		f.deliver(msg)
		f.hear()
	}
}

func (f *follower) deliver(msg *nats.Msg) {
	f.failed(f.asker.Deliver(&f.ahead, time.Now(), f.j.replica.Next(), msg))
}

// followOne applies the journal's message of a sequence, and those before it that
// did not come.
func (j *Journal) followOne(ctx context.Context, sequence uint64, data []byte) error {
	others, err := j.replica.Follow(time.Now(), sequence, data, j.others.lost.Source(ctx))
	j.followed(others)
	return err
}

// followTo applies all messages up to a sequence.
func (j *Journal) followTo(ctx context.Context, sequence uint64) error {
	others, err := j.replica.FollowTo(time.Now(), sequence, j.others.lost.Source(ctx))
	j.followed(others)
	return err
}

// followed counts what was applied of other nodes, and logs what the audit found.
func (j *Journal) followed(others int) {
	if others > 0 {
		j.space.Wrote(others)
	}
	for _, found := range j.replica.NewFindings() {
		j.stats.divergences.Add(1)
		j.log.Error("journal: hits of another node are missing here", "finding", found.String())
	}
}
