package tail

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
)

// Source is the journal's messages.
type Source interface {
	// Bounds are the sequences of the first and the last message, and the bytes of all. An
	// empty journal has first = last+1.
	Bounds(ctx context.Context) (first, last, bytes uint64, err error)
	// Read calls f with each message from one sequence to another, in order; those that can't
	// be read are passed over.
	Read(ctx context.Context, from, last uint64, f func(sequence uint64, data []byte) error) error
	// Get reads one message. A few are read so at less cost than by Read.
	Get(ctx context.Context, sequence uint64) ([]byte, error)
}

// TrimmedError is why a tail can't go on: what comes next was trimmed before it was read.
type TrimmedError struct{ Next, First uint64 }

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("the journal begins with message %d, and %d comes next: what is between was trimmed before it was read", e.First, e.Next)
}

// Tail reads a journal from a position on. One goroutine may use it at a time.
type Tail struct {
	from  Source
	audit *replica.Auditor
}

// New returns a tail that begins at the journal's first message, of an engine with so many
// partitions.
func New(from Source, partitions int) *Tail {
	audit := replica.NewAuditor(0, partitions)
	audit.Alone = false
	return &Tail{from: from, audit: audit}
}

// After returns a tail that begins after snapshots, one for each partition; nil where there is
// none, which begins at the first message.
func After(from Source, snaps []*record.Snapshot) *Tail {
	t := New(from, len(snaps))
	t.audit.ResumeOf(nil, snaps, math.MaxUint64-1) // the newest message is not known, and does not matter
	return t
}

// Next is the sequence of the message that is read next.
func (t *Tail) Next() uint64 { return t.audit.Stream + 1 }

// singly is up to how many messages are asked for one by one.
const singly = 64

// errEnough ends a read after a message, and is no error.
var errEnough = errors.New("enough")

// Read reads up to and including a message, and calls count with each batch that is new, in
// order. It ends earlier, without an error, after the first message for which enough is true. After an error of count, or of reading, what was counted since the last Position is
// not in any: its owner makes another Tail from the position that it has.
func (t *Tail) Read(ctx context.Context, last uint64, count func(record.Batch) error, enough func() bool) (err error) {
	defer func() {
		if errors.Is(err, errEnough) {
			err = nil
		}
	}()
	if last < t.Next() {
		return nil
	}
	first, end, _, err := t.from.Bounds(ctx)
	if err != nil {
		return err
	}
	if first > t.Next() {
		return &TrimmedError{Next: t.Next(), First: first}
	}
	to := &sink{count: count}
	apply := func(sequence uint64, data []byte) error {
		if err := t.audit.Apply(to, sequence, data); err != nil || !enough() {
			return err
		}
		return errEnough
	}
	last = min(last, end)
	if last-t.audit.Stream > singly {
		return t.from.Read(ctx, t.Next(), last, apply)
	}
	for sequence := t.Next(); sequence <= last; sequence++ {
		data, err := t.from.Get(ctx, sequence)
		if err != nil { // it may be one that nobody can read any more: Read tells it from one that nobody answers for
			return errors.Join(ctx.Err(), t.from.Read(ctx, sequence, last, apply))
		}
		if err := apply(sequence, data); err != nil {
			return err
		}
	}
	return nil
}

// Lost are the findings since the call before: hits that the journal does not have any more, or
// that do not add up.
func (t *Tail) Lost() (list []record.Finding) {
	list = record.Losses(t.audit.Findings)
	t.audit.Findings = nil
	return list
}

// sink takes batches, of which those of different partitions come side by side.
type sink struct {
	mu    sync.Mutex
	count func(record.Batch) error
}

func (*sink) Wants(int) bool { return true }

func (s *sink) Count(b record.Batch, _, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(b)
}

func (*sink) Receipts([][]byte, uint64, bool) error { return nil }
