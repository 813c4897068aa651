package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/journal/record"
)

// Taking is what a hand-off needs of the world around a replica. Its methods may take long, and fail when they took too long, or the
// process ends: the hand-off is abandoned then.
type Taking interface {
	Source

	// Now is the time.
	Now() time.Time

	// Snapshots reads the newest good snapshot of each partition; the list is by partition, nil where there is none.
	Snapshots(partitions []int) ([]*record.Snapshot, error)

	// Pause returns after a moment, in which the follower may have gone on.
	Pause() error

	// First is the sequence of the first message that the journal has.
	First() (uint64, error)

	// Read calls each with the messages from one to another, in order. Those that the journal can't hand out it passes over.
	Read(from, to uint64, each func(sequence uint64, data []byte) error) error

	// Hurry has the next cut come soon: it takes what is handed over.
	Hurry(partitions []int)

	// Await waits for what a cut says of a partition.
	Await(held <-chan error) error
}

// errTrimmed is of a partition whose snapshot the journal does not reach back to.
var errTrimmed = fmt.Errorf("%w: it was trimmed", ErrCannotCatchUp)

// TakeOver takes partitions that are not held, from their snapshots and the journal, and returns when they are held. After an error
// those are not that the engine does not hold; the error wraps ErrCannotCatchUp or ErrOverflow where one of the partitions is to
// blame. A goroutine of package holders runs it, and the simulation.
func (r *Replica) TakeOver(partitions []int, by Taking) (err error) {
	snaps, err := by.Snapshots(partitions)
	if err != nil {
		return err
	}
	t, ok := r.beginHandOff(partitions, snaps)
	for !ok {
		if err := by.Pause(); err != nil {
			return err
		}
		t, ok = r.beginHandOff(partitions, snaps)
	}
	defer func() {
		if err != nil {
			r.abandonHandOff(t)
		}
	}()
	if err := t.gather(by); err != nil {
		return err
	}
	held := t.handedOff()
	if err := r.commitHandOff(t); err != nil {
		return err
	}
	by.Hurry(partitions)
	for _, one := range held {
		if err := by.Await(one); err != nil {
			return err
		}
	}
	return nil
}

// gather is step 2.
func (t *handOff) gather(by Taking) error {
	first, err := by.First()
	if err != nil {
		return err
	}
	start, err := t.start(first)
	if errors.Is(err, ErrLeftBehind) {
		return errTrimmed
	}
	if err == nil {
		err = by.Read(start, t.upTo, func(sequence uint64, data []byte) error { return t.follow(by.Now(), sequence, data, by) })
	}
	if err == nil {
		err = t.followRest(by.Now(), by)
	}
	if errors.Is(err, ErrLeftBehind) { // while it was read
		return errTrimmed
	}
	return err
}
