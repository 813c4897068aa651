package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/weir-counter/weir/journal/backup"
	"github.com/weir-counter/weir/journal/record"
)

// Backup writes all that is counted to w, in one file that Restore takes: every
// hit that was counted before the call, and none of a flush that began after it.
// Hits go on meanwhile. It reads what is on disk, a partition or some messages
// at a time, and touches no counter. One backup is taken at a time; others wait.
//
// While it runs the journal is not trimmed. A backup that is so slow that the
// data directory would run full is ended with an error, and so it is by Close.
func (j *Journal) Backup(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := j.checkpoints.Pin(ctx, cancel); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer j.checkpoints.Unpin()
	if err := j.backup(ctx, w); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

func (j *Journal) backup(ctx context.Context, w io.Writer) error {
	if err := j.Sync(ctx); err != nil {
		return err
	}
	return j.copyTo(ctx, w)
}

// copyTo writes what is in the streams, which nobody trims meanwhile.
func (j *Journal) copyTo(ctx context.Context, w io.Writer) error {
	first, last, _, err := j.store.Bounds(ctx)
	if err != nil {
		return err
	}
	cfg := j.engine.Config()
	lists, _, err := j.store.ListSnapshots(ctx, cfg.Partitions)
	if err != nil {
		return err
	}
	start, err := j.startOfBackup(ctx, lists, last)
	if err != nil {
		return err
	}
	if start < first {
		return fmt.Errorf("%w: some partitions have no sound snapshot, and the journal before message %d is trimmed: run weir verify", record.ErrDamaged, first)
	}
	merged, err := j.merged(ctx)
	if err != nil {
		return err
	}
	file, err := backup.NewWriter(w, backup.Info{
		Taken: time.Now().UTC().Truncate(time.Second), Journal: j.store.ID(), Merged: merged, Origin: j.life.Origin, Epoch: j.life.Epoch, Cluster: j.cfg.clustered() || j.ofMany,
		Partitions: cfg.Partitions, RetentionS: int64(cfg.Retention / time.Second), First: start, Last: last, ClockSet: j.set.sets(),
	})
	if err != nil {
		return err
	}
	for _, list := range lists {
		if len(list) == 0 {
			continue
		}
		snap, err := j.store.GetSnapshot(ctx, list[0])
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := file.Section(backup.SectionSnapshot, snap.Encode()); err != nil {
			return err
		}
	}
	if err := j.backupFlushes(ctx, file, start, last); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // whoever ended it must not find it whole
		return err
	}
	return file.End()
}

// startOfBackup is the first message that the newest sound snapshots need after
// them. It takes the others out of lists.
func (j *Journal) startOfBackup(ctx context.Context, lists [][]record.StoredSnapshot, last uint64) (uint64, error) {
	start := last + 1
	for partition := range lists {
		for len(lists[partition]) > 0 {
			_, err := j.store.GetSnapshot(ctx, lists[partition][0])
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

// backupFlushes copies messages of the journal, all of them or none.
func (j *Journal) backupFlushes(ctx context.Context, file *backup.Writer, start, last uint64) error {
	next := start
	err := j.store.Read(ctx, start, last, func(sequence uint64, data []byte) error {
		if sequence != next {
			return missingMessage(next)
		}
		if _, err := record.DecodePart(data); err != nil {
			return fmt.Errorf("journal message %d: %w", sequence, err)
		}
		next++
		return file.Section(backup.SectionFlush, binary.LittleEndian.AppendUint64(nil, sequence), data)
	})
	if err == nil && next != last+1 {
		return missingMessage(next)
	}
	return err
}

func missingMessage(sequence uint64) error {
	return fmt.Errorf("%w: journal message %d is missing: run weir verify", record.ErrDamaged, sequence)
}
