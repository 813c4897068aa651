package backup

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/stream"
)

// Source is a journal that a backup is taken of.
type Source struct {
	Store      *stream.Store
	Own        record.Incarnation // of the data directory
	Cluster    bool               // it has batches of many nodes
	Partitions int
	Retention  time.Duration

	ClockSet func() record.ClockSets                 // when the time of day was set
	Merged   func(context.Context) ([]uint64, error) // the origins of backups that were merged into it
	Policies *kv.Document

	Unwritten [][]byte // parts of flushes that could not be written into the journal, in order; they may be in it all the same
}

// WriteBackup writes what is in the streams, which nobody may trim meanwhile.
func (s Source) WriteBackup(ctx context.Context, w io.Writer) error {
	first, last, _, err := s.Store.Bounds(ctx)
	if err != nil {
		return err
	}
	lists, _, err := s.Store.ListSnapshots(ctx, s.Partitions)
	if err != nil {
		return err
	}
	start, err := s.start(ctx, lists, last)
	if err != nil {
		return err
	}
	if start < first {
		return fmt.Errorf("%w: some partitions have no sound snapshot, and the journal before message %d is trimmed: run weir verify", record.ErrDamaged, first)
	}
	merged, err := s.Merged(ctx)
	if err != nil {
		return err
	}
	policies, _, err := s.Policies.Read(ctx)
	if err != nil {
		return err
	}
	file, err := NewWriter(w, Info{
		Taken: time.Now().UTC().Truncate(time.Second), Journal: s.Store.ID(), Merged: merged, Origin: s.Own.Origin, Epoch: s.Own.Epoch, Cluster: s.Cluster,
		Partitions: s.Partitions, RetentionS: int64(s.Retention / time.Second), First: start, Last: last + uint64(len(s.Unwritten)), ClockSet: s.ClockSet(), Policies: policies,
	})
	if err != nil {
		return err
	}
	for _, list := range lists {
		if len(list) == 0 {
			continue
		}
		snap, err := s.Store.GetSnapshot(ctx, list[0])
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := file.Section(SectionSnapshot, snap.Encode()); err != nil {
			return err
		}
	}
	if err := s.flushes(ctx, file, start, last); err != nil {
		return err
	}
	for i, data := range s.Unwritten {
		if err := file.Section(SectionFlush, binary.LittleEndian.AppendUint64(nil, last+1+uint64(i)), data); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil { // whoever ended it must not find it whole
		return err
	}
	return file.End()
}

// start is the first message that the newest sound snapshots need after
// them. It takes the others out of lists.
func (s Source) start(ctx context.Context, lists [][]record.StoredSnapshot, last uint64) (uint64, error) {
	start := last + 1
	for partition := range lists {
		for len(lists[partition]) > 0 {
			_, err := s.Store.GetSnapshot(ctx, lists[partition][0])
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return 0, err
			}
			lists[partition] = lists[partition][1:]
		}
		from := uint64(0)
		if len(lists[partition]) > 0 {
			from = lists[partition][0].From
		}
		start = min(start, from+1)
	}
	return start, nil
}

// flushes copies messages of the journal, all of them or none.
func (s Source) flushes(ctx context.Context, file *Writer, start, last uint64) error {
	next := start
	err := s.Store.Read(ctx, start, last, func(sequence uint64, data []byte) error {
		if sequence != next {
			return missingMessage(next)
		}
		if _, err := record.DecodePart(data); err != nil {
			return fmt.Errorf("journal message %d: %w", sequence, err)
		}
		next++
		return file.Section(SectionFlush, binary.LittleEndian.AppendUint64(nil, sequence), data)
	})
	if err == nil && next != last+1 {
		return missingMessage(next)
	}
	return err
}

func missingMessage(sequence uint64) error {
	return fmt.Errorf("%w: journal message %d is missing: run weir verify", record.ErrDamaged, sequence)
}
