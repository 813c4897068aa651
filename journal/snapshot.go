package journal

import (
	"encoding/binary"

	"github.com/weir-counter/weir/internal/wire"
)

// snapshot is a partition at a position of the journal: its state after each
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
type snapshot struct {
	life
	partition int
	positions []originPosition
	from      uint64
	state     []byte
	receipts  [][]byte
}

// position is how far a partition's batches of an origin were applied.
type position struct {
	epoch uint64
	seq   uint64
	total uint64
	lost  uint64 // hits of batches that nobody had any more
}

// head is the last flush of a lane.
type head struct {
	epoch uint64
	flush uint64
}

// originPosition is how far an origin was followed.
type originPosition struct {
	origin uint64
	position
	head head // at the snapshot's from; zero: not known

	node string
	at   int64
	left bool
}

const (
	snapshotMagic   = 'S'
	snapshotVersion = 2
)

func (s snapshot) encode() []byte {
	b := make([]byte, 0, len(s.state)+80)
	b = append(b, snapshotMagic, snapshotVersion)
	b = binary.LittleEndian.AppendUint64(b, s.origin)
	b = binary.AppendUvarint(b, s.epoch)
	b = binary.AppendUvarint(b, uint64(s.partition))
	b = binary.AppendUvarint(b, uint64(len(s.positions)))
	for _, at := range s.positions {
		b = binary.LittleEndian.AppendUint64(b, at.origin)
		b = binary.AppendUvarint(b, at.epoch)
		b = binary.AppendUvarint(b, at.seq)
		b = binary.AppendUvarint(b, at.total)
		b = binary.AppendUvarint(b, at.lost)
		b = binary.AppendUvarint(b, at.head.epoch)
		b = binary.AppendUvarint(b, at.head.flush)
		b = binary.AppendUvarint(b, uint64(at.at))
		b = append(b, oneIf(at.left))
		b = wire.AppendText(b, at.node)
	}
	b = binary.AppendUvarint(b, s.from)
	b = wire.AppendBlock(b, s.state)
	b = appendReceipts(b, s.receipts)
	return wire.Seal(b, 0)
}

// decodeSnapshot reads a snapshot; its state refers to data.
func decodeSnapshot(data []byte) (snapshot, error) {
	r, err := openSealed(data, snapshotMagic, snapshotVersion, "snapshot")
	if err != nil {
		return snapshot{}, err
	}
	s := snapshot{life: life{origin: r.Uint64(), epoch: r.Uvarint()}}
	s.partition = int(r.Uvarint())
	for range r.Count() {
		s.positions = append(s.positions, r.originPosition())
	}
	s.from = r.Uvarint()
	s.state = r.Block()
	s.receipts = r.receipts()
	if s.partition < 0 || s.partition >= maxPartitions {
		r.Fail()
	}
	return s, r.end()
}

func (r *reader) originPosition() originPosition {
	at := originPosition{origin: r.Uint64()}
	at.epoch, at.seq, at.total, at.lost = r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint()
	at.head = head{r.Uvarint(), r.Uvarint()}
	at.at = int64(r.Uvarint())
	left := r.Byte()
	at.left = left == 1
	at.node = string(r.Block())
	if at.at < 0 || left > 1 || len(at.node) > maxNodeBytes {
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
