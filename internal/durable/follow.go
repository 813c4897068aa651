package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// runFollower applies the messages after the last one, until ctx is done. It asks
// for them by number, several ranges at once (replica.ReadAhead). Any replica answers, this node's own first of all. A consumer would live on one
// server, and be silent for ten seconds when that one dies. While no replica answers, runFollower asks less often.
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
func (f *follower) Send(ask *replica.Ask) error { return f.asker.Send(f.j.store.Conn(), ask) }

// GiveUp forgets an ask.
func (f *follower) GiveUp(ask *replica.Ask) { f.asker.GiveUp(ask) }

// failed logs an error; nil: there is none, or it is known.
func (f *follower) failed(err error) {
	if err != nil {
		f.j.log.Warn("journal: could not read the journal of the other nodes; will retry", "error", err)
	}
}

// apply applies the message whose turn it is, and reports whether there was one.
func (f *follower) apply(ctx context.Context) bool {
	known := f.Retrying()
	others, ok, err := f.Apply(f.j.store.Source(ctx))
	f.j.followed(others)
	if errors.Is(err, replica.ErrLeftBehind) {
		f.j.fail(err)
	}
	if !known && ctx.Err() == nil {
		f.failed(err)
	}
	return ok
}

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

func (f *follower) await(ctx context.Context) {
	var timer <-chan time.Time
	if due := f.Due(); !due.IsZero() {
		timer = time.After(time.Until(due))
	}
	select {
	case <-ctx.Done():
	case <-timer:
	case <-f.j.others.highWater.News():
	case own := <-f.j.flushed:
		f.Ahead.Own(f.j.replica.Next(), own.sequence, own.data)
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
	others, err := j.replica.Follow(time.Now(), sequence, data, j.store.Source(ctx))
	j.followed(others)
	return err
}

func (j *Journal) followTo(ctx context.Context, sequence uint64) error {
	others, err := j.replica.FollowTo(time.Now(), sequence, j.store.Source(ctx))
	j.followed(others)
	return err
}

// followed counts what was applied of other nodes, and logs what the audit found.
func (j *Journal) followed(others int) {
	j.more.wake()
	if others > 0 {
		j.space.Wrote(others)
	}
	for _, found := range j.replica.NewFindings() {
		j.stats.divergences.Add(1)
		j.log.Error("journal: hits of another node are missing here", "finding", found.String())
	}
}

// goneEvery is how often a journal looks whether its files are there, in addition to each flush.
const goneEvery = time.Second

// goneAdvice is what to do where the files are gone.
const goneAdvice = "what was counted is not on disk any more, and hits are refused. If the directory was moved, stop this process, move it back and start again; else restore a backup into an empty directory (weir restore FILE --data DIR) and start with that. A start with an empty directory counts from 0"

// goneOfMany is what to do where the files of a clustered node are gone.
const goneOfMany = "the other nodes have what this one wrote, and it must start again. If the directory was moved, stop this process, move it back and start again; a start with an empty directory takes all from the other nodes"

// noteFiles remembers which directories the embedded server and the journal write to. It is for
// Open.
func (j *Journal) noteFiles() (err error) {
	if !j.server.Embedded() {
		return nil
	}
	if j.dirThere, err = checkpoint.NotePresence(j.cfg.Dir); err != nil {
		return err
	}
	return j.noteServerFiles()
}

// noteServerFiles remembers the embedded server's. In a cluster the replicas of streams come
// and go: replicasGone looks for those.
func (j *Journal) noteServerFiles() (err error) {
	server := filepath.Join(j.cfg.Dir, checkpoint.ServerDir)
	paths := []string{server, filepath.Join(server, "jetstream")}
	if !j.cfg.clustered() {
		streams, err := filepath.Glob(filepath.Join(server, "jetstream", "*", "streams", stream.FlushStream))
		if err != nil {
			return err
		}
		paths = append(streams, paths...)
	}
	j.serverThere, err = checkpoint.NotePresence(paths...)
	return err
}

// lookForFiles is checkFiles of a node alone. In a cluster runHealing does it: what is
// acknowledged is on other nodes too, and flushes go on until the process ends.
func (j *Journal) lookForFiles() error {
	if j.cfg.clustered() {
		return nil
	}
	return j.checkFiles()
}

// checkFiles fails the journal, with a checkpoint.ErrGone, when the directories that it writes to
// are not at their places any more. Writes succeed all the same, and nothing of them is there
// at the next start.
func (j *Journal) checkFiles() error {
	if j.serverThere == nil {
		return nil
	}
	err := j.dirThere.Check()
	if err == nil {
		err = j.serverThere.Check()
	}
	if err != nil {
		err = j.gone(err)
	}
	return err
}

// replicasGone reports whether the directory of the replicas is not there, though the embedded server of a clustered node keeps some.
// It may be so for a moment, when a replica comes or goes.
func (j *Journal) replicasGone() (path string, gone bool) {
	path = filepath.Join(j.cfg.Dir, checkpoint.ServerDir, "jetstream", "$G")
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, false
	}
	streams, known := j.server.StreamsHere()
	return path, known && streams > 0
}

func (j *Journal) gone(err error) error {
	if j.cfg.clustered() {
		err = fmt.Errorf("%w: %s", err, goneOfMany)
	} else {
		err = fmt.Errorf("%w: %s", err, goneAdvice)
		j.space.Refuse(j.engine, err.Error())
	}
	if j.fail(err) {
		j.stats.failed(err)
		j.log.Error("journal: its files are gone; this process will exit", "error", err)
	}
	return err
}

func (j *Journal) isGone() bool { return errors.Is(j.Err(), checkpoint.ErrGone) }

// runPresence looks for the files of a node alone until ctx is done, or they are gone: a flush may be rare, or
// wait for an answer.
func (j *Journal) runPresence(ctx context.Context) {
	concurrency.Every(ctx, goneEvery, func() bool { return j.lookForFiles() == nil })
}
