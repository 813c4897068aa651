// Package backup takes backups of a journal, and restores them into a new data directory or into a journal in use. It also verifies data
// directories (VerifyDirectory) and changes them to other settings (Carry).
//
// Invariants:
//   - A file that is changed or cut anywhere is refused with an error that wraps record.ErrDamaged, and nothing of it counts.
//   - A backup that is merged twice counts once, however often a merge was cut off: equal backups make equal batches under one origin.
//   - A second backup with the same hits is refused, and no two nodes restore at once.
//   - At most a group of partitions is in memory at a time.
//   - Verifying changes no file. A restore into a directory that fails leaves nothing behind.
//
// Package record has the snapshots and flushes in a backup, and package replica audits what is loaded.
package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weir-counter/weir/internal/cluster/kv"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/internal/files"
	"github.com/weir-counter/weir/internal/journal/record"
	"github.com/weir-counter/weir/internal/journal/replica"
	"github.com/weir-counter/weir/internal/journal/stream"
	"github.com/weir-counter/weir/internal/units"
)

// Scan reads a backup to its end and checks every checksum in it.
func Scan(r io.Reader) (Info, error) {
	b, err := NewReader(r)
	if err != nil {
		return Info{}, err
	}
	err = b.each(func(record.Snapshot) error { return nil }, func(uint64, []byte) error { return nil })
	return b.Info, err
}

// each calls a function for every snapshot and for every message of the journal,
// until the backup's end. What a snapshot is read from is good until the next call; a
// message is the function's to keep.
func (b *Reader) each(takeSnapshot func(record.Snapshot) error, takeFlush func(sequence uint64, data []byte) error) error {
	for {
		kind, content, err := b.section()
		if err != nil {
			return err
		}
		switch {
		case kind == sectionEnd:
			b.Info.Bytes = b.bytes
			return nil
		case kind == SectionSnapshot:
			var snap record.Snapshot
			if snap, err = record.DecodeSnapshot(content); err == nil {
				b.Info.Snapshots++
				for _, at := range snap.Positions {
					b.saw(at.Origin)
				}
				err = takeSnapshot(snap)
			}
		case kind == SectionFlush && len(content) > 8+record.FlushOriginAt+8:
			b.saw(binary.LittleEndian.Uint64(content[8+record.FlushOriginAt:]))
			err = takeFlush(binary.LittleEndian.Uint64(content), bytes.Clone(content[8:])) // of a flush in parts, all are kept until the last
		case kind == sectionHistory && b.Info.History:
			if b.history != nil {
				err = b.history(content)
			}
		default:
			err = fmt.Errorf("%w: a section of kind %q", record.ErrDamaged, kind)
		}
		if err != nil {
			return fmt.Errorf("section %d of the backup: %w", b.number-1, err)
		}
	}
}

// Unbounded is more memory, and more disk, than there is.
const Unbounded = 1 << 50

// Load brings some partitions of an engine to where the backup was taken.
func (b *Reader) Load(e *engine.Engine, some replication.PartitionSet) error {
	audit := replica.NewAuditor(b.Info.Origin, b.Info.Partitions)
	audit.Alone = !b.Info.Cluster
	snaps := make([]*record.Snapshot, b.Info.Partitions)
	audit.Stream = b.Info.First - 1
	err := b.each(func(snap record.Snapshot) error {
		switch {
		case snap.Origin != audit.Origin && audit.Alone || snap.Partition >= audit.Partitions:
			return fmt.Errorf("%w: it is not of this backup", record.ErrDamaged)
		case snap.From > b.Info.Last:
			return fmt.Errorf("%w: messages %d to %d of the journal are not in the backup", record.ErrDamaged, b.Info.Last+1, snap.From)
		case snap.From+1 < b.Info.First:
			return fmt.Errorf("%w: messages %d to %d of the journal are not in the backup", record.ErrDamaged, snap.From+1, b.Info.First-1)
		}
		audit.NoteRequests(snap)
		if !some.Has(snap.Partition) {
			return nil
		}
		snaps[snap.Partition] = &record.Snapshot{Incarnation: snap.Incarnation, Partition: snap.Partition, From: snap.From, Positions: snap.Positions}
		return replica.LoadInto(e, snap, b.Info.ClockSet)
	}, func(sequence uint64, data []byte) error {
		if sequence == b.Info.First {
			audit.ResumeOf(some, snaps, b.Info.Last)
			audit.Stream = b.Info.First - 1
		}
		to := replica.NewHolding(e)
		to.Set = b.Info.ClockSet.Since
		return audit.Apply(someOf{to, some}, sequence, data)
	})
	if err != nil {
		return err
	}
	audit.End(b.Info.Last, b.Info.Last)
	if lost := record.Losses(audit.Findings); len(lost) > 0 {
		return fmt.Errorf("%w: the backup: %s", record.ErrDamaged, lost[0])
	}
	if some.Has(0) {
		advance(e, audit.Moves())
	}
	return nil
}

// advance notes where topics are counted; Engine.CutReceipts has it.
func advance(e *engine.Engine, moves []replication.Request) {
	for _, one := range moves {
		e.Receipts().Advance(one.ID, func(*replication.RequestRecorder) replication.Move { return one.Move })
	}
}

// someOf is the sink of some partitions. Receipts go with partition 0, as in snapshots.
type someOf struct {
	*replica.Holding
	partitions replication.PartitionSet
}

func (s someOf) Wants(partition int) bool { return s.partitions.Has(partition) }

func (s someOf) Receipts(list [][]byte, message uint64, deciding bool) error {
	if !s.partitions.Has(0) {
		return nil
	}
	return s.Holding.Receipts(list, message, deciding)
}

// Spool is a backup in a file of this machine that was checked as a whole: nothing of a
// backup counts before that.
type Spool struct {
	Path    string
	Info    Info
	sum     [sha256.Size]byte // of the whole file
	sizes   []int64           // bytes of the state of each partition
	Origins []uint64          // whose hits are in it
}

// NewSpool copies a backup into a file, of at most so many bytes, and checks it.
func NewSpool(ctx context.Context, r io.Reader, path string, most int64) (*Spool, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|files.NoFollow, 0o600)
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(file, io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("the backup has more than %s, the size bound of this data directory: raise --max-disk (MaxBytes)", units.FormatSize(most))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	s, err := CheckSpool(ctx, path)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return s, nil
}

// CheckSpool reads a whole backup.
func CheckSpool(ctx context.Context, path string) (*Spool, error) {
	s := &Spool{Path: path}
	b, err := s.Open()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if b.Info.Partitions < 1 || b.Info.Partitions > record.MaxPartitions {
		return nil, fmt.Errorf("%w: section 0 of the backup: %d partitions", record.ErrDamaged, b.Info.Partitions)
	}
	s.sizes = make([]int64, b.Info.Partitions)
	err = b.each(func(snap record.Snapshot) error {
		if snap.Partition >= len(s.sizes) {
			return fmt.Errorf("%w: a snapshot of partition %d of %d", record.ErrDamaged, snap.Partition, len(s.sizes))
		}
		s.sizes[snap.Partition] = int64(len(snap.State))
		return ctx.Err()
	}, func(_ uint64, data []byte) error {
		if _, err := record.DecodePart(data); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	s.Info, s.Origins = b.Info, b.Origins()
	copy(s.sum[:], b.whole.Sum(nil))
	return s, nil
}

// ID is the origin under which the backup is merged into a journal. It is always the same, so that the backup counts once, until another
// backup has replaced all hits.
func (s *Spool) ID(to engine.Config, replacedBy uint64) uint64 {
	h := sha256.New()
	h.Write([]byte("weir merge"))
	h.Write(s.sum[:])
	_ = binary.Write(h, binary.LittleEndian, []int64{int64(to.Partitions), int64(to.Retention / time.Second)}) // a hash takes everything
	if replacedBy != 0 {
		_ = binary.Write(h, binary.LittleEndian, replacedBy)
	}
	return binary.LittleEndian.Uint64(h.Sum(nil))>>1 + 1
}

// Open begins to read the file. The caller closes the Reader.
func (s *Spool) Open() (*Reader, error) {
	file, err := os.OpenFile(s.Path, os.O_RDONLY|files.NoFollow, 0)
	if err != nil {
		return nil, err
	}
	b, err := NewReader(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	b.file = file
	return b, nil
}

// Engine returns an engine with the settings of the backup, for its content alone. Its janitor
// does not run, and its time of day is when the backup was taken: equal backups give equal contents.
func (info Info) Engine() (*engine.Engine, error) {
	e, err := newEngine(info.Partitions, info.RetentionS, func() time.Time { return info.Taken })
	if err != nil {
		return nil, fmt.Errorf("%w: section 0 of the backup: %w", record.ErrDamaged, err)
	}
	return e, e.Close()
}

// newEngine makes an engine whose memory suffices for all that a directory or a backup has. now is its clock; nil: the system's.
func newEngine(partitions int, retentionS int64, now func() time.Time) (*engine.Engine, error) {
	return engine.New(engine.Config{
		Partitions: partitions, Retention: time.Duration(retentionS) * time.Second, Memory: Unbounded, Gather: true, Clock: engine.EventClock, Now: now,
	})
}

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

	History io.Reader // SQLite file of the history; nil: there is none
	Last    uint64    // with History, the last message of the journal that is in it, and the backup's last

	Unwritten [][]byte // parts of flushes that could not be written into the journal, in order; they may be in it all the same
}

// WriteBackup writes what is in the streams, which nobody may trim meanwhile.
func (s Source) WriteBackup(ctx context.Context, w io.Writer) error {
	first, last, _, err := s.Store.Bounds(ctx)
	if err != nil {
		return err
	}
	if s.History != nil {
		last = s.Last
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
		History: s.History != nil,
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
	if s.History != nil {
		if _, err := io.CopyBuffer(historyPieces{file}, struct{ io.Reader }{s.History}, make([]byte, historyPiece)); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil { // an aborted read must not pass for a whole backup
		return err
	}
	return file.End()
}

// historyPiece is how many bytes of the history a section has at most.
const historyPiece = 1 << 20

// historyPieces writes what comes as sections of the history.
type historyPieces struct{ *Writer }

func (h historyPieces) Write(piece []byte) (int, error) {
	return len(piece), h.Section(sectionHistory, piece)
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
