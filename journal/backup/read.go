package backup

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/journal/record"
	"github.com/weir-counter/weir/journal/replica"
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
func (b *Reader) Load(engine *weir.Engine, some replication.PartitionSet) error {
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
		if !some.Has(snap.Partition) {
			return nil
		}
		snaps[snap.Partition] = &record.Snapshot{Incarnation: snap.Incarnation, Partition: snap.Partition, From: snap.From, Positions: snap.Positions}
		return replica.LoadInto(engine, snap, b.Info.ClockSet)
	}, func(sequence uint64, data []byte) error {
		if sequence == b.Info.First {
			audit.ResumeOf(some, snaps, b.Info.Last)
			audit.Stream = b.Info.First - 1
		}
		to := replica.NewHolding(engine)
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
	return nil
}

// someOf is the sink of some partitions. Receipts go with partition 0, as in snapshots.
type someOf struct {
	*replica.Holding
	of replication.PartitionSet
}

func (s someOf) Wants(partition int) bool { return s.of.Has(partition) }

func (s someOf) Receipts(list [][]byte, message uint64, deciding bool) error {
	if !s.of.Has(0) {
		return nil
	}
	return s.Holding.Receipts(list, message, deciding)
}
