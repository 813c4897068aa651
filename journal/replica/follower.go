package replica

import (
	"errors"
	"time"
)

// Follower follows the journal: it decides what to ask for, applies what came in its turn, and retries what could not
// be applied. A goroutine of the journal runs it with real clocks and replicas of the journal, the simulation with seeded ones.
type Follower struct {
	// Ahead has what is asked for and came. Hints and answers go to it.
	Ahead ReadAhead

	replica *Replica
	now     func() time.Time
	wait    time.Duration // after a message that could not be applied; 0: there is none
	until   time.Time     // of it
}

// NewFollower returns a Follower of the messages after those that r has applied.
func NewFollower(r *Replica, now func() time.Time) *Follower {
	return &Follower{replica: r, now: now}
}

// Asker puts asks to replicas of the journal. What comes of one is handed to Follower.Ahead: Take, and then End or Fail.
type Asker interface {
	Send(of *Ask) error
	GiveUp(of *Ask) // nothing that still comes of it is to be handed over
}

// ErrSilent is why an ask was given up.
var ErrSilent = errors.New("no replica of the journal answers")

// Ask asks for as much as there is room for. failed is why asks fail, where that is new and worth a line in the log.
func (f *Follower) Ask(by Asker) (failed error) {
	now := f.now()
	fail := func(of *Ask, err error) {
		if f.Ahead.Fail(now, of) {
			failed = err
		}
	}
	for of := f.Ahead.Silent(now); of != nil; of = f.Ahead.Silent(now) {
		by.GiveUp(of)
		fail(of, ErrSilent)
	}
	next := f.replica.Next()
	for want, ok := f.Ahead.Want(now, next); ok; want, ok = f.Ahead.Want(now, next) {
		of := f.Ahead.Begin(now, want)
		if err := by.Send(of); err != nil {
			fail(of, err)
		}
	}
	return failed
}

// Apply applies the message whose turn it is, and those before it that did not come: from has them. It returns the bytes of
// messages of other origins; ok is false if it is no message's turn. A message that could not be applied is retried, after a
// pause that doubles from FollowEvery to RetryMost; ErrLeftBehind does not heal.
func (f *Follower) Apply(from Source) (others int, ok bool, err error) {
	now := f.now()
	if now.Before(f.until) {
		return 0, false, nil
	}
	sequence, data, ok := f.Ahead.Turn(f.replica.Next())
	if !ok {
		return 0, false, nil
	}
	if others, err = f.replica.Follow(now, sequence, data, from); err == nil {
		f.wait, f.until = 0, time.Time{}
		return others, true, nil
	}
	f.Ahead.Keep(sequence, data)
	f.wait = min(2*max(f.wait, FollowEvery), RetryMost)
	f.until = f.now().Add(f.wait)
	return others, true, err
}

// Retrying tells whether the last message could not be applied.
func (f *Follower) Retrying() bool { return f.wait > 0 }

// Due is when there may be something to ask for or to apply though nothing comes; zero: never.
func (f *Follower) Due() (due time.Time) {
	now := f.now()
	due = f.Ahead.Due(now)
	if f.until.After(now) && (due.IsZero() || f.until.Before(due)) {
		due = f.until
	}
	return due
}
