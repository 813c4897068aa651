package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/wire"
)

// This file reads the journal in order, for history and for digests of other regions. There are two readers. Each
// hands out everything once, and can be stopped and begun again at a position that its owner keeps:
//
//   - Tail, for history, hands out batches, checked by the rules of a replica and by its code (package replica). Its
//     position has a few bytes for each partition and origin. Lost reports what the journal has lost.
//   - TailFlushes, for digests, hands out whole flushes. Its position has some hundred bytes, since every digest has one.
//     Before it hands out what comes after a loss, Missing reports the loss. Its owner then asks the origin again, as a
//     following node does, so that other regions count no less than this one.
//
// Invariants of both:
//   - What is handed out between two positions does not depend on where the reader was stopped between.
//   - What came twice is handed out once.
//   - A flush counts as a whole or not at all; a position never stands in the middle of one.
//   - What is missing is reported. A TrimmedError reports what was trimmed before a Tail read it.
//
// Neither decides when it reads, and what its owner does with what it hands out: one goroutine of the owner calls it. They know
// no NATS: a Source is the stream (package stream) or a test's, and Journal.ReadFlushes of package durable drives
// TailFlushes.

// TailSource is the journal's messages.
type TailSource interface {
	// Bounds are the sequences of the first and the last message, and the bytes of all. An
	// empty journal has first = last+1.
	Bounds(ctx context.Context) (first, last, bytes uint64, err error)
	// Read calls f with each message from one sequence to another, in order; those that can't
	// be read are passed over.
	Read(ctx context.Context, from, last uint64, f func(sequence uint64, data []byte) error) error
	// Requests returns the requests with an idempotency key that the newest snapshot lists, and the message up to which it lists them.
	// Without a snapshot both are zero.
	Requests(ctx context.Context) (list []record.SeenRequest, upTo uint64, err error)
}

// TrimmedError is why a tail can't go on: what comes next was trimmed before it was read. Or so much before it was
// trimmed that requests which were counted may come again.
type TrimmedError struct{ Next, First uint64 }

func (e *TrimmedError) Error() string {
	if e.First <= e.Next {
		return fmt.Sprintf("the journal begins with message %d, and %d comes next: too little is left before it to know which requests were counted", e.First, e.Next)
	}
	return fmt.Sprintf("the journal begins with message %d, and %d comes next: what is between was trimmed before it was read", e.First, e.Next)
}

// Tail reads a journal from a position on. One goroutine may use it at a time.
type Tail struct {
	from  TailSource
	audit *Auditor
	aware bool // of the requests in messages before the position
	again bool // so far as another tail of this process has seen them
}

// NewTail returns a tail that begins at the journal's first message, of an engine with so many
// partitions.
func NewTail(from TailSource, partitions int) *Tail {
	audit := NewAuditor(0, partitions)
	audit.Alone, audit.HitsOnly = false, true
	return &Tail{from: from, audit: audit, aware: true}
}

// After returns a tail that begins after snapshots, one for each partition. A partition without one (nil) begins at the first
// message.
func After(from TailSource, snaps []*record.Snapshot) *Tail {
	t := NewTail(from, len(snaps))
	t.audit.ResumeOf(nil, snaps, math.MaxUint64-1) // the newest message is not known, and does not matter
	return t
}

// Next is the sequence of the message that is read next.
func (t *Tail) Next() uint64 { return t.audit.Stream + 1 }

// errEnough ends a read after a message, and is no error.
var errEnough = errors.New("enough")

// Read reads up to and including a message, and calls count with each new batch, in order. It ends earlier, without an
// error, after the first message for which stop is true. After an error, of count or of reading, no position
// contains what was counted since the last Position. The owner must make another Tail from that position.
func (t *Tail) Read(ctx context.Context, last uint64, count func(record.Batch) error, stop func() bool) (err error) {
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
	if !t.aware {
		origins := len(t.audit.byOrigin)
		if t.again {
			origins = 0 // it has seen the requests itself
		}
		if err := t.audit.requests.learn(ctx, t.from, first, t.audit.Stream, origins); err != nil {
			return err
		}
	}
	t.aware = true
	to := &sink{count: count}
	apply := func(sequence uint64, data []byte) error {
		if err := t.audit.Apply(to, sequence, data); err != nil || !stop() {
			return err
		}
		return errEnough
	}
	return t.from.Read(ctx, t.Next(), min(last, end), apply)
}

// Lost are the findings since the call before: hits that the journal does not have any more, or
// that do not add up.
func (t *Tail) Lost() (list []record.Finding) {
	list = record.Losses(t.audit.Findings)
	t.audit.Findings = nil
	return list
}

// sink takes batches. Batches of different partitions come concurrently.
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

// A position, version 1, says up to where a Tail has read. Its owner stores it with the result of the batches up to
// there. Numbers are unsigned varints:
//
//	byte 0     'T'
//	byte 1     version, 1
//	           partitions
//	           from: the message up to which nothing is needed
//	           origins: how many, then each: 8 bytes origin, little endian; epoch, flush of
//	               the last flush up to from, 0 and 0: not known; at, Unix ms; a byte: 1 if it
//	               has left; length of its node's name, name
//	           for each partition, of each origin: epoch, seq, total, hits that were lost
//	last 4     CRC-32C of all bytes before, little endian
const (
	positionMagic   = 'T'
	positionVersion = 1
)

// ErrDamaged is wrapped by the error for bytes that are no position.
var ErrDamaged = errors.New("damaged position in the journal")

// Position is where the tail stands. It has a few bytes for each partition and origin.
func (t *Tail) Position() []byte {
	snaps := t.audit.Standing()
	return wire.Seal(wire.Append([]byte{positionMagic, positionVersion}, func(c *wire.Codec) { positionFields(c, &snaps) }), 0)
}

// positionFields are a position as snapshots without states, one for each partition. All are from one message, and have the same origins.
func positionFields(c *wire.Codec, snaps *[]*record.Snapshot) {
	partitions, first := len(*snaps), &record.Snapshot{}
	if partitions > 0 {
		first = (*snaps)[0]
	}
	wire.Number(c, &partitions, record.MaxPartitions)
	wire.Number(c, &first.From, math.MaxUint64-1)
	wire.List(c, &first.Positions, math.MaxUint64, func(at *record.OriginPosition) {
		c.Uint64(&at.Origin)
		c.Uvarints(&at.Head.Epoch, &at.Head.Flush)
		wire.Number(c, &at.At, math.MaxInt64)
		c.Bool(&at.Left)
		c.Text(&at.Node, record.MaxNodeBytes)
	})
	for partition := 0; partition < partitions && !c.Failed(); partition++ {
		if c.Reads() {
			*snaps = append(*snaps, &record.Snapshot{Partition: partition, From: first.From, Positions: slices.Clone(first.Positions)})
		}
		for i := range (*snaps)[partition].Positions {
			at := &(*snaps)[partition].Positions[i].Position
			c.Uvarints(&at.Epoch, &at.Seq, &at.Total, &at.Lost)
		}
	}
}

// ResumeTail returns a tail that goes on at a position of an engine with as many partitions. It also knows the requests that
// before, a tail of the same journal or nil, has seen.
func ResumeTail(from TailSource, partitions int, position []byte, before *Tail) (*Tail, error) {
	snaps, err := readPosition(position)
	if err != nil {
		return nil, err
	}
	if len(snaps) != partitions {
		return nil, fmt.Errorf("a position in the journal of an engine with %d partitions: this one has %d", len(snaps), partitions)
	}
	t := After(from, snaps)
	t.aware = false
	if before != nil {
		t.audit.requests, t.again = before.audit.requests.clone(), true
	}
	return t, nil
}

// Reached returns the message up to which a position has everything. The time up to which it does is the earliest by
// the clocks of the origins that have not left. It is zero if there are none.
func Reached(position []byte) (message uint64, at time.Time, err error) {
	snaps, err := readPosition(position)
	if err != nil {
		return 0, at, err
	}
	for _, origin := range snaps[0].Positions {
		if until := time.UnixMilli(origin.At); !origin.Left && (at.IsZero() || until.Before(at)) {
			at = until
		}
	}
	return snaps[0].From, at, nil
}

func readPosition(position []byte) ([]*record.Snapshot, error) {
	version, r, err := wire.Open(position, positionMagic)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if version != positionVersion {
		return nil, fmt.Errorf("a position in the journal in version %d: this build reads version %d", version, positionVersion)
	}
	var snaps []*record.Snapshot
	wire.Read(&r, func(c *wire.Codec) { positionFields(c, &snaps) })
	if !r.Done() || len(snaps) == 0 {
		return nil, ErrDamaged
	}
	return snaps, nil
}

// FlushPosition is a place in a journal.
type FlushPosition struct {
	// After is the message after which to read on.
	After uint64
	// Heads are the last flushes that were handed out, by origin. Some may be after After: what
	// comes of them again is dropped. Of an origin that is not there, the first flush that comes
	// is taken, whatever its number.
	Heads map[uint64]record.Head
}

// maxOrigins bounds what is read of an encoded FlushPosition.
const maxOrigins = 1 << 20

// TailFlushes hands out each whole flush of each origin once, after those before it of its origin. It is not safe for many goroutines.
//
// An Auditor without partitions decides what is whole, what came twice and what is missing: so a reader and a replica agree.
type TailFlushes struct {
	audit *Auditor
	lost  uint64
	aware bool // of the requests in messages before the position
}

// NewTailFlushes returns TailFlushes that go on after at.
func NewTailFlushes(at FlushPosition) *TailFlushes {
	audit := NewAuditor(0, 0)
	audit.Alone, audit.Stream = false, at.After
	for origin, head := range at.Heads {
		l := audit.progressOf(origin)
		l.epoch, l.flush, l.known = head.Epoch, head.Flush, true
	}
	return &TailFlushes{audit: audit}
}

// Next is the message to read now.
func (t *TailFlushes) Next() uint64 { return t.audit.Stream + 1 }

// Lost is how often parts of flushes were missing and passed over.
func (t *TailFlushes) Lost() uint64 { return t.lost }

// Has reports whether a flush, or a later one of the same origin, was handed out.
func (t *TailFlushes) Has(p record.Part) bool {
	l := t.audit.byOrigin[p.Origin]
	return l != nil && l.known && !record.Head{Epoch: l.epoch, Flush: l.flush}.Before(record.Head{Epoch: p.Epoch, Flush: p.Flush})
}

// Learn notes the requests that a journal, which begins with message first, had before the position. Call it before Take. Calls after
// one that succeeded do nothing.
func (t *TailFlushes) Learn(ctx context.Context, from TailSource, first uint64) error {
	if t.aware {
		return nil
	}
	err := t.audit.requests.learn(ctx, from, first, t.audit.Stream, len(t.audit.byOrigin))
	t.aware = err == nil
	return err
}

// Skip goes on after a message that nobody has.
func (t *TailFlushes) Skip(message uint64) { t.audit.Stream = max(t.audit.Stream, message) }

// Missing is the part that should have come before p, if one did not: to be had from its origin, and
// taken first. Where it is not, Take goes on without it.
func (t *TailFlushes) Missing(p record.Part) (flush, number uint64, is bool) {
	return t.progressOf(p).gap(p)
}

// progressOf is how far the origin of a part is. The first flush of one that is not known yet may have any number.
func (t *TailFlushes) progressOf(p record.Part) *Progress {
	if t.audit.byOrigin[p.Origin] == nil {
		t.audit.progressOf(p.Origin).known = false
	}
	return t.audit.byOrigin[p.Origin]
}

// Take takes the part that a message is. It returns the parts of the flush that this part completes, or nil. A missing
// part counts with the message that revealed it.
func (t *TailFlushes) Take(message uint64, p record.Part) (flush []record.Part) {
	t.Skip(message)
	flush = t.progressOf(p).part("", p)
	t.lost, t.audit.Findings = t.lost+uint64(len(t.audit.Findings)), nil
	if less := t.audit.requests.settle(flush); less != nil {
		for _, p := range flush {
			for i := range p.Batches {
				p.Batches[i] = p.Batches[i].Without(less)
			}
		}
	}
	return flush
}

// Position is where to go on: before a flush whose last part has not come, as a snapshot is (startOf).
func (t *TailFlushes) Position() FlushPosition {
	return FlushPosition{After: t.audit.startOf().from, Heads: t.audit.heads()}
}

// Fields are After, how many origins, and of each 8 bytes, epoch and flush.
func (at *FlushPosition) Fields(c *wire.Codec) {
	c.Uvarints(&at.After)
	origins := slices.Sorted(maps.Keys(at.Heads))
	if c.Reads() {
		at.Heads = map[uint64]record.Head{}
	}
	wire.List(c, &origins, maxOrigins, func(origin *uint64) {
		c.Uint64(origin)
		head := at.Heads[*origin]
		if c.Uvarints(&head.Epoch, &head.Flush); c.Reads() {
			at.Heads[*origin] = head
		}
	})
}
