package record

import (
	"encoding/binary"

	"github.com/weir-counter/weir/internal/wire"
)

// Snapshot is a partition at a position of the journal: its state after each
// origin's batches up to seq of an epoch, and all of epochs before. Version 2,
// numbers as unsigned varints:
//
//	byte 0     'S'
//	byte 1     version, 2
//	8 bytes    origin that took it, little endian
//	           epoch, partition
//	           origins: how many, then each: 8 bytes origin, little endian;
//	               epoch, seq, total (see flush.go); hits that were lost
//	               epoch, flush: the last one up to from; 0 and 0: not known
//	               at; a byte: 1 if it has left; length of its node's name, name
//	           from: the sequence in the stream up to which nothing is needed
//	           length of the state, the state (package weir, state.go)
//	           receipts: how many, then each: length, bytes; partition 0 has all
//	last 4     CRC-32C of all bytes before, little endian
type Snapshot struct {
	Incarnation
	Partition int
	Positions []OriginPosition
	From      uint64
	State     []byte
	Receipts  [][]byte
}

// Position is how far a partition's batches of an origin were applied.
type Position struct {
	Epoch uint64
	Seq   uint64
	Total uint64
	Lost  uint64 // at least how many hits of batches that nobody had any more: above 0 when there may be any
}

// Head is the last flush of an origin.
type Head struct {
	Epoch uint64
	Flush uint64
}

// Before tells whether a flush is of an earlier incarnation than another, or earlier in the same one.
func (h Head) Before(o Head) bool {
	return h.Epoch < o.Epoch || h.Epoch == o.Epoch && h.Flush < o.Flush
}

// OriginPosition is how far an origin was followed.
type OriginPosition struct {
	Origin uint64
	Position
	Head Head // at the snapshot's from; zero: not known

	Node string
	At   int64
	Left bool
}

const (
	snapshotMagic   = 'S'
	snapshotVersion = 2
)

// Encode is the bytes of the snapshot, which DecodeSnapshot reads.
func (s Snapshot) Encode() []byte {
	b := make([]byte, 0, len(s.State)+80)
	b = append(b, snapshotMagic, snapshotVersion)
	b = binary.LittleEndian.AppendUint64(b, s.Origin)
	b = binary.AppendUvarint(b, s.Epoch)
	b = binary.AppendUvarint(b, uint64(s.Partition))
	b = binary.AppendUvarint(b, uint64(len(s.Positions)))
	for _, at := range s.Positions {
		b = binary.LittleEndian.AppendUint64(b, at.Origin)
		b = binary.AppendUvarint(b, at.Epoch)
		b = binary.AppendUvarint(b, at.Seq)
		b = binary.AppendUvarint(b, at.Total)
		b = binary.AppendUvarint(b, at.Lost)
		b = binary.AppendUvarint(b, at.Head.Epoch)
		b = binary.AppendUvarint(b, at.Head.Flush)
		b = binary.AppendUvarint(b, uint64(at.At))
		b = append(b, oneIf(at.Left))
		b = wire.AppendText(b, at.Node)
	}
	b = binary.AppendUvarint(b, s.From)
	b = wire.AppendBlock(b, s.State)
	b = appendReceipts(b, s.Receipts)
	return wire.Seal(b, 0)
}

// DecodeSnapshot reads a snapshot; its state refers to data.
func DecodeSnapshot(data []byte) (Snapshot, error) {
	r, err := openSealed(data, snapshotMagic, snapshotVersion, "snapshot")
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Incarnation: Incarnation{Origin: r.Uint64(), Epoch: r.Uvarint()}}
	s.Partition = int(r.Uvarint())
	for range r.Count() {
		s.Positions = append(s.Positions, r.originPosition())
	}
	s.From = r.Uvarint()
	s.State = r.Block()
	s.Receipts = r.receipts()
	if s.Partition < 0 || s.Partition >= MaxPartitions {
		r.Fail()
	}
	return s, r.end()
}

func (r *reader) originPosition() OriginPosition {
	at := OriginPosition{Origin: r.Uint64()}
	at.Epoch, at.Seq, at.Total, at.Lost = r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint()
	at.Head = Head{r.Uvarint(), r.Uvarint()}
	at.At = int64(r.Uvarint())
	left := r.Byte()
	at.Left = left == 1
	at.Node = string(r.Block())
	if at.At < 0 || left > 1 || len(at.Node) > MaxNodeBytes {
		r.Fail()
	}
	return at
}

func oneIf(is bool) byte {
	if is {
		return 1
	}
	return 0
}
