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
	f := &follower{Follower: replica.NewFollower(j.replica, time.Now), j: j, asker: stream.NewAsker()}
	defer f.asker.Close()
	for ctx.Err() == nil {
		f.Ahead.Hint(j.others.highWater.Last())
		f.failed(f.Ask(f))
		if f.apply(ctx) {
			f.hear() // what came meanwhile, so that asks go on
			continue
		}
		f.await(ctx)
	}
}

// follower is the state of the goroutine that follows: replica.Follower decides what it does.
type follower struct {
	*replica.Follower
	j     *Journal
	asker *stream.Asker
}

// Send puts an ask to the replicas of the journal.
func (f *follower) Send(of *replica.Ask) error { return f.asker.Send(f.j.store.Conn(), of) }

// GiveUp forgets an ask.
func (f *follower) GiveUp(of *replica.Ask) { f.asker.GiveUp(of) }

// failed logs an error; nil: there is none, or it is known.
func (f *follower) failed(err error) {
	if err != nil {
		f.j.log.Warn("journal: could not read the journal of the other nodes; will retry", "error", err)
	}
}

// apply applies the message whose turn it is, and tells whether there was one.
func (f *follower) apply(ctx context.Context) bool {
	known := f.Retrying()
	others, ok, err := f.Apply(f.j.others.lost.Source(ctx))
	f.j.followed(others)
	if errors.Is(err, replica.ErrLeftBehind) {
		f.j.fail(err)
	}
	if !known && ctx.Err() == nil {
		f.failed(err)
	}
	return ok
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
	var timer <-chan time.Time
	if due := f.Due(); !due.IsZero() {
		timer = time.After(time.Until(due))
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
	if first, err := f.asker.Deliver(&f.Ahead, time.Now(), f.j.replica.Next(), msg); first {
		f.failed(err)
	}
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
