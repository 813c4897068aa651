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
	Backup BackupInfo
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
	s, err := spoolFrom(ctx, r, path, j.cfg.MaxBytes)
	if errors.Is(err, errDamaged) || errors.Is(err, errNoBackup) {
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
func (j *Journal) restoreSpool(ctx context.Context, s *spool, mode RestoreMode) (done Restored, err error) {
	done.Backup = s.info
	if j.cfg.clustered() { // what another node has merged is to be known here
		if err := j.CatchUp(ctx); err != nil {
			return done, err
		}
	}
	id, name := rand.Uint64()>>1+1, replaceName
	if mode == Merge {
		replaced, err := j.replacedBy(ctx)
		if err != nil {
			return done, err
		}
		id = s.id(j.engine.Config(), replaced)
		name = restoreName(id)
	}
	done.Origin = journalText(id)
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
		for partition := range j.replica.audit.partitions {
			w.hits.addRestored(partition, kindClear, []byte{1}, 1)
		}
		if err := w.flush(ctx); err != nil {
			return done, err
		}
		if err := j.beginReplaced(ctx, id); err != nil {
			return done, err
		}
	}
	if err := s.each(ctx, func(from *weir.Engine, c weir.Content) error { return w.content(ctx, from, c) },
		func(list [][]byte) error { return w.usage(ctx, nil, list) }); err != nil {
		return done, err
	}
	w.hits.leaving = true
	if err := w.flush(ctx); err != nil {
		return done, err
	}
	done.Keys = w.keys
	if mode == Replace { // what it has is here, as if it had been merged
		of := s.entry(j.cfg.Join.Node)
		of.Whole = true
		if err := j.recordMerge(ctx, journalText(s.id(j.engine.Config(), id)), of); err != nil {
			return done, err
		}
	}
	if j.cfg.clustered() {
		err = j.CatchUp(ctx)
	}
	j.log.Info("journal: a backup was restored", "mode", string(mode), "taken", s.info.Taken, "keys", done.Keys, "origin", done.Origin)
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
	hits *encoder
	used *encoder
	keys uint64
	last int // partition of the flush's last batch
}

func (j *Journal) newRestoreWriter(id uint64, name string) *restoreWriter {
	of := func(id uint64, name string) *encoder {
		e := newEncoder(life{id, 1}, j.replica.audit.partitions)
		e.version, e.node = restoredVersion, name
		return e
	}
	used := rand.Uint64()>>1 + 1
	w := &restoreWriter{j: j, hits: of(id, name), used: of(used, restoreName(used))}
	w.used.leaving = true // of whatever attempt: nobody waits for another flush
	w.hits.begin(time.Now())
	return w
}

// restoreFlushBytes is after how many bytes a flush is closed: it stays one message.
const restoreFlushBytes = maxPartBytes / 2

// content writes what a partition of the backup has.
func (w *restoreWriter) content(ctx context.Context, from *weir.Engine, c weir.Content) error {
	admissions, err := from.Replication().Admissions(c)
	if err != nil {
		return err
	}
	if err := w.usage(ctx, admissions, nil); err != nil {
		return err
	}
	w.keys += uint64(len(c.Keys))
	return pour(c, w.j.engine, func(p poured) error {
		if p.partition < w.last { // batches of one partition stand side by side in a flush
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
		w.last = p.partition
		w.hits.addRestored(p.partition, p.kind, p.entries, p.n)
		if len(w.hits.batches) < cmp.Or(w.j.restoreBytes, restoreFlushBytes) {
			return nil
		}
		return w.flush(ctx)
	})
}

func (w *restoreWriter) flush(ctx context.Context) error {
	parts := w.hits.end(nil)
	err := w.j.handOver(ctx, parts)
	w.hits.begin(time.Now())
	w.last = 0
	return err
}

// usage writes what keys have used of limits, and receipts.
func (w *restoreWriter) usage(ctx context.Context, admissions []weir.Admission, receipts [][]byte) error {
	if len(admissions) == 0 && len(receipts) == 0 {
		return nil
	}
	by := map[int][]weir.Admission{}
	for _, a := range admissions {
		partition := w.j.engine.Replication().PartitionOf(a.Key)
		by[partition] = append(by[partition], a)
	}
	w.used.begin(time.Now())
	for partition := range w.j.replica.audit.partitions {
		w.used.addAdmissions(partition, by[partition])
	}
	return w.j.handOver(ctx, w.used.end(receipts))
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
	for !j.room().takes(j.snapshots.kept.Load(), int64(sizeOf(parts))) {
		j.lookAtKept(ctx)
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
	if err := j.publish(ctx, parts); err != nil || j.cfg.clustered() {
		return err
	}
	return j.replica.applyAlone(parts)
}

func (r *replica) applyAlone(parts [][]byte) error {
	r.cutting.Lock()
	defer r.cutting.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, data := range parts {
		p, err := decodePart(data)
		if err != nil {
			return err
		}
		if err := r.audit.applyParts(r.to, r.audit.lane(p.origin).part("a restored backup", p)); err != nil {
			return err
		}
	}
	return nil
}
