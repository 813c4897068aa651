package region

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
)

// bases writes the pieces of a base to the log.
type bases struct {
	r      *Region
	region string
	id     ID
	at     int64
	number uint64
	before uint64 // hash of the pieces so far, of the first one a random number
	audit  Audit
}

func (b *bases) partition(ctx context.Context, partition int, state []byte) error {
	var seq, total uint64
	if partition < len(b.audit.Seqs) {
		seq, total = b.audit.Seqs[partition], b.audit.Totals[partition]
	}
	empty, err := isEmpty(state)
	if err != nil {
		return err
	}
	if empty && seq == 0 {
		return nil
	}
	for _, piece := range Pieces(partition, seq, total, state, b.r.pieceBytes) {
		if err := b.piece(ctx, piece, false); err != nil {
			return err
		}
	}
	return nil
}

func isEmpty(state []byte) (bool, error) {
	if len(state) > 1<<10 {
		return false, nil
	}
	s, err := replication.ReadState(state)
	return len(s.Keys)+len(s.Quarantined)+len(s.Evicted) == 0 && s.Total.Total() == 0, err
}

func (b *bases) end(ctx context.Context, note Note) error {
	return b.piece(ctx, Piece{Bytes: note.Encode()}, true)
}

func (b *bases) piece(ctx context.Context, piece Piece, last bool) error {
	piece.Before = b.before
	m := Message{Region: b.region, ID: b.id, Number: b.number, Last: last, At: b.at, Piece: &piece}
	data := m.Encode()
	b.number, b.before = b.number+1, NextHash(b.before, data)
	return b.r.append(ctx, entry{data: data})
}

// renewBases writes new bases of regions with many digests since the last one, and trims the log.
func (r *Region) renewBases(ctx context.Context) error {
	names := r.ledger.Regions()
	share := r.cfg.LogBytes / int64(8*max(1, len(names)))
	for _, name := range names {
		if !r.ledger.DueBase(name, share) {
			continue
		}
		write := r.writeBase
		if name == r.cfg.Name {
			write = func(ctx context.Context, _ string) error { return r.renewOwnBase(ctx) }
		}
		if err := write(ctx, name); err != nil {
			return err
		}
	}
	first, _, err := r.stream.bounds(ctx)
	if err != nil {
		return err
	}
	if upTo := r.ledger.Trimmable(); upTo >= first {
		if err := r.stream.trim(ctx, upTo); err != nil {
			return err
		}
		r.trimmed(upTo + 1)
	}
	return nil
}

// writeBase writes a base of another region, from its view.
func (r *Region) writeBase(ctx context.Context, name string) error {
	known := r.ledger.Region(name)
	b := &bases{r: r, before: mathrand.Uint64(), region: name, id: known.ID, at: known.At, audit: known.Audit}
	var cut replication.Cut
	for partition := range known.Note.Partitions {
		state, err := r.views.State(name, partition, &cut)
		if err != nil {
			return err
		}
		if err := b.partition(ctx, partition, state); err != nil {
			return err
		}
	}
	return b.end(ctx, *known.Note)
}

// renewOwnBase writes a base of this region at a digest that it writes before.
func (r *Region) renewOwnBase(ctx context.Context) error {
	m, err := r.baseMoment(ctx)
	if err == nil {
		err = r.digestTo(ctx, m.upTo, m.asOf, m.late)
	}
	if err != nil {
		return err
	}
	own := r.ledger.Region(r.cfg.Name)
	if own.Seq == 1 { // an epoch began, with a base
		return nil
	}
	has, t := replica.NewTailFlushes(own.Note.At), replica.NewTailFlushes(startOf(m.stored))
	b := &bases{r: r, before: mathrand.Uint64(), region: r.cfg.Name, id: own.ID, at: own.At, audit: own.Audit}
	if err := r.writeStates(ctx, b, t, r.tail.Next()-1, m.stored, has.Has); err != nil {
		return err
	}
	return b.end(ctx, *own.Note)
}

// writeOwnBase writes the base that an epoch begins with.
func (r *Region) writeOwnBase(ctx context.Context, id ID) error {
	m, err := r.baseMoment(ctx)
	if err != nil {
		return err
	}
	t := replica.NewTailFlushes(startOf(m.stored))
	b := &bases{r: r, before: mathrand.Uint64(), region: r.cfg.Name, id: id, at: m.asOf.UnixMilli()}
	if err := r.writeStates(ctx, b, t, m.upTo, m.stored, func(record.Part) bool { return true }); err != nil {
		return err
	}
	r.tail, r.sum = t, NewSum(r.engine.Partitions)
	if err := b.end(ctx, r.note(m.late)); err != nil {
		return err
	}
	r.after = id
	return nil
}

// baseMoment is a position in the journal, and the snapshots from which a base at that position begins.
type baseMoment struct {
	stored []*baseSnapshot // by partition; nil: there is none
	upTo   uint64
	asOf   time.Time
	late   []replica.OriginStatus
}

// baseSnapshot is a sound snapshot of the journal, without its state, which is read again.
type baseSnapshot struct {
	record.StoredSnapshot
	positions []record.OriginPosition
}

func (r *Region) baseMoment(ctx context.Context) (m baseMoment, err error) {
	m.stored = make([]*baseSnapshot, r.engine.Partitions)
	for partition := range m.stored {
		list, err := r.journal.StoredSnapshots(ctx, partition)
		if err != nil {
			return m, err
		}
		for _, one := range list {
			snap, err := r.journal.ReadSnapshot(ctx, one)
			if errors.Is(err, record.ErrDamaged) {
				continue
			}
			if err != nil {
				return m, err
			}
			m.stored[partition] = &baseSnapshot{one, snap.Positions}
			break
		}
	}
	_, last, err := r.journal.Bounds(ctx) // includes all that the snapshots have
	if err != nil {
		return m, err
	}
	m.upTo, m.asOf, m.late, err = r.journal.Moment(ctx)
	m.upTo = max(m.upTo, last)
	return m, err
}

// startOf returns the position in the journal after which snapshots lack something.
func startOf(stored []*baseSnapshot) (at replica.FlushPosition) {
	oldest := stored[0]
	for _, snap := range stored {
		if snap == nil {
			return at
		}
		if snap.From < oldest.From {
			oldest = snap
		}
	}
	at.After, at.Heads = oldest.From, map[uint64]record.Head{}
	for _, origin := range oldest.positions {
		if origin.Head.Epoch != 0 {
			at.Heads[origin.Origin] = origin.Head
		}
	}
	return at
}

// since reads the journal up to a message, and returns the batches that snapshots lack, by partition, of the flushes that are
// wanted.
func (r *Region) since(ctx context.Context, t *replica.TailFlushes, upTo uint64, stored []*baseSnapshot, wanted func(record.Part) bool) ([][]record.Batch, error) {
	has := make([]map[uint64]record.Position, len(stored))
	for partition, snap := range stored {
		if snap != nil {
			has[partition] = map[uint64]record.Position{}
			for _, origin := range snap.positions {
				has[partition][origin.Origin] = origin.Position
			}
		}
	}
	then := make([][]record.Batch, len(stored))
	err := r.journal.ReadFlushes(ctx, t, upTo, func(flush []record.Part) error {
		for _, p := range flush {
			for _, b := range p.Batches {
				if b.Partition >= len(then) || len(b.Entries) == 0 || b.OfLimits() || !wanted(p) {
					continue
				}
				if at := has[b.Partition][p.Origin]; p.Epoch < at.Epoch || p.Epoch == at.Epoch && b.Seq <= at.Seq {
					continue
				}
				then[b.Partition] = append(then[b.Partition], b)
			}
		}
		return nil
	})
	return then, err
}

// writeStates writes the state of each partition: its snapshot, and what the journal has since, up to a message.
func (r *Region) writeStates(ctx context.Context, b *bases, t *replica.TailFlushes, upTo uint64, stored []*baseSnapshot, wanted func(record.Part) bool) error {
	then, err := r.since(ctx, t, upTo, stored, wanted)
	if err != nil {
		return err
	}
	cfg := viewConfig(r.engine)
	cfg.Memory, cfg.Gather = r.memory, true
	e, err := engine.New(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }() // it has memory only
	to := replica.NewHolding(e)
	var cut replication.Cut
	for partition, one := range stored {
		if one == nil && len(then[partition]) == 0 && len(b.audit.Seqs) == 0 {
			continue
		}
		if one != nil {
			snap, err := r.journal.ReadSnapshot(ctx, one.StoredSnapshot)
			if err != nil {
				return fmt.Errorf("%w: %w", errRound, err)
			}
			if err := e.LoadHits(partition, snap.State); err != nil {
				return fmt.Errorf("snapshot of partition %d: %w", partition, err)
			}
		}
		for _, batch := range then[partition] {
			if err := to.Count(batch, false, false); err != nil {
				return err
			}
		}
		then[partition] = nil
		e.Cut(partition, &cut, true)
		if err := b.partition(ctx, partition, cut.State); err != nil {
			return err
		}
		e.Release(partition)
	}
	return nil
}

// errRound is why a base is begun again.
var errRound = errors.New("a snapshot could not be read again, maybe because newer ones replaced it; will retry")
