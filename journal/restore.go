package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weir-counter/weir"
)

// ScanBackup reads a backup to its end and checks every checksum in it.
func ScanBackup(r io.Reader) (BackupInfo, error) {
	b, err := newBackupReader(r)
	if err != nil {
		return BackupInfo{}, err
	}
	err = b.each(func(snapshot) error { return nil }, func(uint64, []byte) error { return nil })
	return b.info, err
}

// each calls a function for every snapshot and for every message of the journal,
// until the backup's end.
func (b *backupReader) each(takeSnapshot func(snapshot) error, takeFlush func(sequence uint64, data []byte) error) error {
	for {
		kind, content, err := b.section()
		if err != nil {
			return err
		}
		switch {
		case kind == sectionEnd:
			b.info.Bytes = b.bytes
			return nil
		case kind == sectionSnapshot:
			var snap snapshot
			if snap, err = decodeSnapshot(content); err == nil {
				b.info.Snapshots++
				for _, at := range snap.positions {
					b.saw(at.origin)
				}
				err = takeSnapshot(snap)
			}
		case kind == sectionFlush && len(content) > 8+flushOriginAt+8:
			b.saw(binary.LittleEndian.Uint64(content[8+flushOriginAt:]))
			err = takeFlush(binary.LittleEndian.Uint64(content), content[8:])
		default:
			err = fmt.Errorf("%w: a section of kind %q", errDamaged, kind)
		}
		if err != nil {
			return fmt.Errorf("section %d of the backup: %w", b.number-1, err)
		}
	}
}

// restoreStage is the folder in which a data directory grows until it is whole.
const restoreStage = "restoring"

// Restore makes a data directory out of a backup. dir must be empty, not be there, or be
// left by a Restore that was killed. All counts are loaded and audited first; where the backup is damaged or
// cut short, nothing is left behind. The directory is of a new origin, so that it
// and the one that was backed up can both go on.
func Restore(ctx context.Context, r io.Reader, dir string) (info BackupInfo, err error) {
	err = refuseFilled(dir) // before the lock leaves a file in it
	isNew := errors.Is(err, fs.ErrNotExist)
	if err != nil && !isNew {
		return info, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	if err := refuseFilled(dir); err != nil { // nobody else can fill it any more
		return info, err
	}
	// Before anything is read, which may take long: should this process be killed, the
	// directory must not pass for a new one.
	stage := filepath.Join(dir, restoreStage)
	defer func() {
		err = errors.Join(err, os.RemoveAll(stage))
		if err != nil {
			err = errors.Join(err, leave(dir, isNew))
		}
	}()
	if err := beginStage(dir, stage); err != nil {
		return info, err
	}
	b, err := newBackupReader(r)
	if err != nil {
		return info, err
	}
	engine, err := weir.New(weir.Config{
		Partitions: b.info.Partitions, Retention: time.Duration(b.info.RetentionS) * time.Second,
		Memory: unbounded, Gather: true, Clock: weir.EventClock,
	})
	if err != nil {
		return info, fmt.Errorf("%w: section 0 of the backup: %w", errDamaged, err)
	}
	defer engine.Close()
	if err := b.load(engine, nil); err != nil {
		return b.info, err
	}
	if err := writeDir(ctx, engine, stage, merge{Journal: b.info.Journal, Origins: b.origins(), Taken: b.info.Taken, Began: time.Now().UTC()}); err != nil {
		return b.info, err
	}
	return b.info, unstage(stage, dir)
}

// unbounded is more memory, and more disk, than there is.
const unbounded = 1 << 50

// load brings some partitions of an engine to where the backup was taken.
func (b *backupReader) load(engine *weir.Engine, some weir.PartitionSet) error {
	audit := newAuditor(b.info.Origin, b.info.Partitions)
	audit.alone = !b.info.Cluster
	snaps := make([]*snapshot, b.info.Partitions)
	audit.stream = b.info.First - 1
	err := b.each(func(snap snapshot) error {
		switch {
		case snap.origin != audit.origin && audit.alone || snap.partition >= audit.partitions:
			return fmt.Errorf("%w: it is not of this backup", errDamaged)
		case snap.from > b.info.Last:
			return fmt.Errorf("%w: messages %d to %d of the journal are not in the backup", errDamaged, b.info.Last+1, snap.from)
		case snap.from+1 < b.info.First:
			return fmt.Errorf("%w: messages %d to %d of the journal are not in the backup", errDamaged, snap.from+1, b.info.First-1)
		}
		if !some.Has(snap.partition) {
			return nil
		}
		snaps[snap.partition] = &snapshot{life: snap.life, partition: snap.partition, from: snap.from, positions: snap.positions}
		if err := engine.Replication().LoadReceipts(snap.receipts); err != nil {
			return err
		}
		return engine.Replication().LoadState(snap.partition, snap.state)
	}, func(sequence uint64, data []byte) error {
		if sequence == b.info.First {
			audit.resumeOf(some, snaps, b.info.Last)
			audit.stream = b.info.First - 1
		}
		return audit.apply(someOf{newHolding(engine), some}, sequence, data)
	})
	if err != nil {
		return err
	}
	audit.end(b.info.Last, b.info.Last)
	if lost := lossy(audit.findings); len(lost) > 0 {
		return fmt.Errorf("%w: the backup: %s", errDamaged, lost[0])
	}
	return nil
}

// someOf is the sink of some partitions. Receipts go with partition 0, as in snapshots.
type someOf struct {
	*holding
	of weir.PartitionSet
}

func (s someOf) wants(partition int) bool { return s.of.Has(partition) }

func (s someOf) receipts(list [][]byte, deciding bool) error {
	if !s.of.Has(0) {
		return nil
	}
	return s.holding.receipts(list, deciding)
}

// writeDir makes a data directory with all that an engine has, in snapshots. It remembers
// the backup that all is of.
func writeDir(ctx context.Context, engine *weir.Engine, dir string, of merge) error {
	j, err := Open(ctx, engine, Config{Dir: dir, FlushEvery: time.Millisecond, MaxBytes: 4 * unbounded}, nil)
	if err != nil {
		return err
	}
	err = j.recordMerge(ctx, journalText(newJournalID()), of)
	if err := errors.Join(err, j.Close(ctx)); err != nil {
		return err
	}
	if j.snapshots.inRound() {
		return fmt.Errorf("the snapshots were not written: %w", context.Cause(ctx))
	}
	return nil
}

// unstage moves a whole data directory into place, its manifest last: without it
// a directory is refused.
func unstage(stage, dir string) error {
	for _, name := range []string{serverDir, markFile, manifestFile} {
		if err := os.Rename(filepath.Join(stage, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// leave takes back what a restore that failed has put into dir.
func leave(dir string, isNew bool) error {
	var errs []error
	for _, name := range []string{manifestFile, markFile, serverDir, lockFile} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	if isNew {
		errs = append(errs, os.Remove(dir))
	}
	return errors.Join(errs...)
}

// refuseFilled refuses a directory that holds anything but our lock and what a restore
// that was killed has left.
func refuseFilled(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, manifestFile)); err == nil {
		return fmt.Errorf("%s is a data directory already: choose one that is empty, or not there yet", dir)
	}
	restoring := slices.ContainsFunc(entries, isStage)
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == lockFile, name == restoreStage:
		case restoring && (name == serverDir || name == markFile): // it was killed as it moved them there
		default:
			return fmt.Errorf("%s holds %s: choose a directory that is empty, or not there yet", dir, name)
		}
	}
	return nil
}

func isStage(entry fs.DirEntry) bool { return entry.Name() == restoreStage }

// beginStage makes an empty folder for the restore, in place of what an earlier one has left.
func beginStage(dir, stage string) error {
	for _, name := range []string{serverDir, markFile, restoreStage} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := os.Mkdir(stage, 0o700); err != nil {
		return err
	}
	return syncDir(dir)
}

// refuseRestoring refuses to begin empty where a restore was killed.
func refuseRestoring(dir string, entries []fs.DirEntry) error {
	if slices.ContainsFunc(entries, isStage) {
		return fmt.Errorf("data directory %s is the remains of an interrupted restore: run weir restore again, or remove the directory to begin empty", dir)
	}
	return nil
}
