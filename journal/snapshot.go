package journal

import (
	"encoding/binary"
	"hash/crc32"
)

// snapshot is a partition at a position of the journal: its state after the
// batches up to seq of the epoch, and all of epochs before. Version 1, numbers
// as unsigned varints:
//
//	byte 0     'S'
//	byte 1     version, 1
//	8 bytes    origin, little endian
//	           epoch, partition, seq, total (see flush.go)
//	           from: the sequence in the stream up to which nothing is needed
//	           length of the state, the state (package weir, state.go)
//	           receipts: how many, then each: length, bytes; partition 0 has all
//	last 4     CRC-32C of all bytes before, little endian
type snapshot struct {
	life
	partition int
	position
	from     uint64
	state    []byte
	receipts [][]byte
}

// position is how far a partition's batches of one epoch were applied.
type position struct {
	seq   uint64
	total uint64
}

const (
	snapshotMagic   = 'S'
	snapshotVersion = 1
)

func (s snapshot) encode() []byte {
	b := make([]byte, 0, len(s.state)+80)
	b = append(b, snapshotMagic, snapshotVersion)
	b = binary.LittleEndian.AppendUint64(b, s.origin)
	for _, v := range []uint64{s.epoch, uint64(s.partition), s.seq, s.total, s.from, uint64(len(s.state))} {
		b = binary.AppendUvarint(b, v)
	}
	b = append(b, s.state...)
	b = appendReceipts(b, s.receipts)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeSnapshot reads a snapshot; its state refers to data.
func decodeSnapshot(data []byte) (snapshot, error) {
	r, err := openSealed(data, snapshotMagic, snapshotVersion, "snapshot")
	if err != nil {
		return snapshot{}, err
	}
	s := snapshot{life: life{origin: binary.LittleEndian.Uint64(r.take(8)), epoch: r.uvarint()}}
	s.partition, s.seq, s.total, s.from = int(r.uvarint()), r.uvarint(), r.uvarint(), r.uvarint()
	s.state = r.take(r.uvarint())
	s.receipts = r.receipts()
	if s.partition < 0 || s.partition >= maxPartitions {
		r.fail()
	}
	return s, r.end()
}
