package record

import (
	"encoding/binary"
	"fmt"

	"github.com/weir-counter/weir/internal/wire"
)

// Each partition has two slots for its snapshots, written in turn, so that a
// damaged one falls back to the one before. A slot is two subjects of the stream
// of snapshots: the snapshot's bytes in chunks, and after them one message that
// makes them count, version 2, numbers as unsigned varints:
//
//	byte 0     'E'
//	byte 1     version, 2
//	           partition, slot (0 or 1), epoch, from (see snapshot)
//	           chunks: the snapshot is in so many messages right before this one
//	           length of the snapshot in bytes
//	last 4     CRC-32C of all bytes before, little endian
//
// (JetStream's object store does the same with more messages and syncs for each
// object, leaves chunks behind after a crash, and its listing waits for ever
// when a message of it is lost.)
const (
	endMagic   = 'E'
	endVersion = 2

	// Slots is how many snapshots of a partition are stored.
	Slots = 2
)

// StoredSnapshot is the snapshot in a slot, by the message that ends it.
type StoredSnapshot struct {
	Partition, Slot int
	Epoch, From     uint64
	Length          uint64
	Chunks          []uint64 // their sequences
	Sequence        uint64   // of that message
}

// SlotName names a slot in subjects and findings: the partition, and a or b.
func SlotName(partition, slot int) string {
	return fmt.Sprintf("%d%c", partition, 'a'+slot)
}

// Encode is the message that ends the snapshot.
func (l StoredSnapshot) Encode() []byte {
	b := []byte{endMagic, endVersion}
	for _, v := range []uint64{uint64(l.Partition), uint64(l.Slot), l.Epoch, l.From, l.Length, uint64(len(l.Chunks))} {
		b = binary.AppendUvarint(b, v)
	}
	before := uint64(0)
	for _, sequence := range l.Chunks {
		b = binary.AppendUvarint(b, sequence-before)
		before = sequence
	}
	return wire.Seal(b, 0)
}

// DecodeStored reads and checks the message that ends a snapshot; it does not know its Sequence.
func DecodeStored(data []byte) (StoredSnapshot, error) {
	r, err := openSealed(data, endMagic, endVersion, "end of a snapshot")
	if err != nil {
		return StoredSnapshot{}, err
	}
	l := StoredSnapshot{Partition: int(r.Uvarint()), Slot: int(r.Uvarint()), Epoch: r.Uvarint(), From: r.Uvarint(), Length: r.Uvarint()}
	sequence := uint64(0)
	for range r.Count() {
		sequence += r.Uvarint()
		l.Chunks = append(l.Chunks, sequence)
	}
	return l, r.end()
}

// SpoiledSnapshot is the finding of a snapshot that can't be used.
func SpoiledSnapshot(partition, slot int, err error) Finding {
	return Finding{
		Where: "snapshot " + SlotName(partition, slot), What: err.Error(),
		Cost: "none if the one before and the journal after it are sound", Harmless: true,
	}
}
