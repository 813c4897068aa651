package tail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/journal/record"
)

// A position, version 1: where a Tail stands, for its owner to keep beside what it made of the
// batches up to there. Numbers are unsigned varints:
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
	b := []byte{positionMagic, positionVersion}
	b = binary.AppendUvarint(b, uint64(len(snaps)))
	b = binary.AppendUvarint(b, snaps[0].From)
	b = binary.AppendUvarint(b, uint64(len(snaps[0].Positions)))
	for _, of := range snaps[0].Positions {
		b = binary.LittleEndian.AppendUint64(b, of.Origin)
		b = binary.AppendUvarint(b, of.Head.Epoch)
		b = binary.AppendUvarint(b, of.Head.Flush)
		b = binary.AppendUvarint(b, uint64(of.At))
		b = wire.AppendBool(b, of.Left)
		b = wire.AppendText(b, of.Node)
	}
	for _, snap := range snaps {
		for _, of := range snap.Positions {
			b = binary.AppendUvarint(b, of.Epoch)
			b = binary.AppendUvarint(b, of.Seq)
			b = binary.AppendUvarint(b, of.Total)
			b = binary.AppendUvarint(b, of.Lost)
		}
	}
	return wire.Seal(b, 0)
}

// Resume returns a tail that goes on at a position of an engine with as many partitions.
func Resume(from Source, partitions int, position []byte) (*Tail, error) {
	snaps, err := readPosition(position)
	if err != nil {
		return nil, err
	}
	if len(snaps) != partitions {
		return nil, fmt.Errorf("a position in the journal of an engine with %d partitions: this one has %d", len(snaps), partitions)
	}
	return After(from, snaps), nil
}

// Reached is the message up to which a position has all, and until when by the clocks of the
// origins, of those that have not left: zero where there are none.
func Reached(position []byte) (message uint64, at time.Time, err error) {
	snaps, err := readPosition(position)
	if err != nil {
		return 0, at, err
	}
	for _, of := range snaps[0].Positions {
		if told := time.UnixMilli(of.At); !of.Left && (at.IsZero() || told.Before(at)) {
			at = told
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
	partitions, from := r.Uvarint(), r.Uvarint()
	origins := make([]record.OriginPosition, 0, 8)
	for range r.Count() {
		of := record.OriginPosition{Origin: r.Uint64(), Head: record.Head{Epoch: r.Uvarint(), Flush: r.Uvarint()}}
		of.At, of.Left, of.Node = int64(r.Uvarint()), r.Bool(), string(r.Block())
		origins = append(origins, of)
	}
	if r.Failed() || partitions == 0 || partitions > record.MaxPartitions || from == ^uint64(0) {
		return nil, ErrDamaged
	}
	snaps := make([]*record.Snapshot, 0, 256)
	for partition := range int(partitions) {
		snap := &record.Snapshot{Partition: partition, From: from, Positions: make([]record.OriginPosition, len(origins))}
		copy(snap.Positions, origins)
		for i := range snap.Positions {
			snap.Positions[i].Position = record.Position{Epoch: r.Uvarint(), Seq: r.Uvarint(), Total: r.Uvarint(), Lost: r.Uvarint()}
		}
		if snaps = append(snaps, snap); r.Failed() {
			return nil, ErrDamaged
		}
	}
	if !r.Done() {
		return nil, ErrDamaged
	}
	return snaps, nil
}
