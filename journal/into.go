package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/backup"
	"github.com/weir-counter/weir/journal/record"
)

// RestoreMode says what becomes of the hits that are there.
type RestoreMode string

const (
	// Merge adds the backup's hits to those that are there. The same backup counts once,
	// however often it is merged.
	Merge RestoreMode = "merge"

	// Replace makes the counts those of the backup, and what is hit from then on.
	Replace RestoreMode = "replace"
)

// Restored is what RestoreInto did.
type Restored struct {
	Backup backup.Info
	Again  bool   // it was merged before as a whole, and nothing was done
	Origin string // under which the backup is in the journal, 16 hexadecimal digits
	Keys   uint64 // windows of keys that were written
}

// spoolFile is where a backup is while it is restored.
const spoolFile = "restore.spool"

// RestoreInto restores a backup into this journal while it is in use, on all nodes: what
// the backup has goes through the journal as hits do. The backup is copied into the data
// directory first and checked as a whole: one that is damaged or cut short changes
// nothing. It may be of other partitions, and of another retention, to which it is
// brought. What keys have used of limits, and receipts, are added in both modes.
//
// If it ends early, by an error or a crash, the same call does what is left of it: Merge
// goes on, Replace starts over. One node of a cluster restores at a time: while another
// does, the error wraps ErrRestoring. Until then nodes of a cluster call the backup late.
func (j *Journal) RestoreInto(ctx context.Context, r io.Reader, mode RestoreMode) (done Restored, err error) {
	if mode != Merge && mode != Replace {
		return done, fmt.Errorf("restore: mode %q: must be merge or replace", mode)
	}
	ctx, free, err := j.claimRestore(ctx)
	if err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	defer free()
	path := filepath.Join(j.cfg.Dir, spoolFile)
	s, err := backup.NewSpool(ctx, r, path, j.cfg.MaxBytes)
	if errors.Is(err, record.ErrDamaged) || errors.Is(err, backup.ErrNoBackup) {
		err = fmt.Errorf("%w: %w", ErrDamagedBackup, err)
	}
	if err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	if done, err = j.restoreSpool(ctx, s, mode); err != nil {
		return done, fmt.Errorf("restore: %w", err)
	}
	return done, nil
}

// restoreSpool is RestoreInto of a backup that was checked.
func (j *Journal) restoreSpool(ctx context.Context, s *backup.Spool, mode RestoreMode) (done Restored, err error) {
	done.Backup = s.Info
	if j.cfg.clustered() { // what another node has merged is to be known here
		if err := j.CatchUp(ctx); err != nil {
			return done, err
		}
	}
	id, name := rand.Uint64()>>1+1, record.ReplacingBackup
	if mode == Merge {
		replaced, err := j.replacedBy(ctx)
		if err != nil {
			return done, err
		}
		id = s.ID(j.engine.Config(), replaced)
		name = record.BackupName(id)
	}
	done.Origin = record.JournalText(id)
	if mode == Merge {
		if done.Again, err = j.beginMerge(ctx, s, id); err != nil || done.Again {
			return done, err
		}
	}
	w := j.newRestoreWriter(id, name)
	if mode == Replace {
		if err := j.Sync(ctx); err != nil { // own hits from before are before it in the journal
			return done, err
		}
		for partition := range j.engine.Config().Partitions {
			w.hits.AddRestored(partition, record.KindClear, []byte{1}, 1)
		}
		if err := w.flush(ctx); err != nil {
			return done, err
		}
		if err := j.beginReplaced(ctx, id); err != nil {
			return done, err
		}
	}
	if err := s.Each(ctx, func(from *weir.Engine, c replication.Content) error { return w.content(ctx, from, c) },
		func(list [][]byte) error { return w.usage(ctx, nil, list) }); err != nil {
		return done, err
	}
	w.hits.Leaving = true
	if err := w.flush(ctx); err != nil {
		return done, err
	}
	done.Keys = w.keys
	if mode == Replace { // what it has is here, as if it had been merged
		of := entryOf(s, j.cfg.Join.Node)
		of.Whole = true
		if err := j.recordMerge(ctx, record.JournalText(s.ID(j.engine.Config(), id)), of); err != nil {
			return done, err
		}
	}
	if j.cfg.clustered() {
		err = j.CatchUp(ctx)
	}
	j.log.Info("journal: a backup was restored", "mode", string(mode), "taken", s.Info.Taken, "keys", done.Keys, "origin", done.Origin)
	return done, err
}

// restoreWriter writes a backup into the journal.
//
// Windows and clears are of an origin whose flushes follow from the backup alone. What
// keys have used of limits depends on when it is read: it is of an origin of this attempt,
// so that a second one charges it again. Limits are then too strict for their period,
// and never too generous.
type restoreWriter struct {
	j    *Journal
	hits *record.Encoder
	used *record.Encoder
	keys uint64
	last int // partition of the flush's last batch
}

func (j *Journal) newRestoreWriter(id uint64, name string) *restoreWriter {
	of := func(id uint64, name string) *record.Encoder {
		e := record.NewEncoder(record.Incarnation{Origin: id, Epoch: 1}, j.engine.Config().Partitions)
		e.Restored, e.Node = true, name
		return e
	}
	used := rand.Uint64()>>1 + 1
	w := &restoreWriter{j: j, hits: of(id, name), used: of(used, record.BackupName(used))}
	w.used.Leaving = true // of whatever attempt: nobody waits for another flush
	w.hits.Begin(time.Now())
	return w
}

// restoreFlushBytes is after how many bytes a flush is closed: it stays one message.
const restoreFlushBytes = record.MaxPartBytes / 2

// content writes what a partition of the backup has.
func (w *restoreWriter) content(ctx context.Context, from *weir.Engine, c replication.Content) error {
	admissions, err := replication.Of(from).Admissions(c)
	if err != nil {
		return err
	}
	if err := w.usage(ctx, admissions, nil); err != nil {
		return err
	}
	w.keys += uint64(len(c.Keys))
	return backup.Pour(c, w.j.engine, func(p backup.Batch) error {
		if p.Partition < w.last { // batches of one partition stand side by side in a flush
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
		w.last = p.Partition
		w.hits.AddRestored(p.Partition, p.Kind, p.Entries, p.N)
		if w.hits.Size() < cmp.Or(w.j.restoreBytes, restoreFlushBytes) {
			return nil
		}
		return w.flush(ctx)
	})
}

func (w *restoreWriter) flush(ctx context.Context) error {
	parts := w.hits.End(nil)
	err := w.j.handOver(ctx, parts)
	w.hits.Begin(time.Now())
	w.last = 0
	return err
}

// usage writes what keys have used of limits, and receipts.
func (w *restoreWriter) usage(ctx context.Context, admissions []replication.Admission, receipts [][]byte) error {
	if len(admissions) == 0 && len(receipts) == 0 {
		return nil
	}
	by := map[int][]replication.Admission{}
	for _, a := range admissions {
		partition := replication.Of(w.j.engine).PartitionOf(a.Key)
		by[partition] = append(by[partition], a)
	}
	w.used.Begin(time.Now())
	for partition := range w.j.engine.Config().Partitions {
		w.used.AddAdmissions(partition, by[partition])
	}
	return w.j.handOver(ctx, w.used.End(receipts))
}

// handedOver is a flush of a backup on its way to the goroutine that writes flushes.
type handedOver struct {
	parts [][]byte
	done  chan error // holds one
}

// roomPoll is how often a restore looks whether the journal was trimmed.
const roomPoll = 50 * time.Millisecond

// handOver has a flush written between those of this node, and returns when it is in the
// journal. It leaves room for hits: a backup waits until there is more.
func (j *Journal) handOver(ctx context.Context, parts [][]byte) error {
	for !j.space.Room().Takes(j.space.Kept(), int64(record.SizeOf(parts))) {
		j.checkpoints.LookAtKept(ctx)
		select {
		case <-ctx.Done():
			return fmt.Errorf("the journal has no room for more: %w", context.Cause(ctx))
		case <-j.failed:
			return j.failure
		case <-time.After(roomPoll):
		}
	}
	h := handedOver{parts, make(chan error, 1)}
	select {
	case j.handed <- h:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-j.failed:
		return j.failure
	case <-j.stopped:
		return errClosing
	}
	select {
	case err := <-h.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takeOver writes a flush of a backup. Among nodes it is applied when it comes back; alone
// nobody else does, and before the next flush, whose snapshots say that they have it.
func (j *Journal) takeOver(ctx context.Context, parts [][]byte) error {
	j.flusher.BeginForeign(time.Now(), parts)
	if err := j.publish(ctx); err != nil {
		return err
	}
	j.flusher.End()
	if j.cfg.clustered() {
		return nil
	}
	return j.replica.ApplyAlone(parts)
}
