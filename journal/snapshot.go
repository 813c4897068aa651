package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
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
//
// Each partition has two objects, written in turn, so that a damaged one falls
// back to the one before.
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
	slots           = 2 // objects of each partition
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

func decodeSnapshot(data []byte) (snapshot, error) {
	if len(data) < 2+8+sumBytes || data[0] != snapshotMagic {
		return snapshot{}, fmt.Errorf("%w: not a snapshot", errDamaged)
	}
	body, sum := data[:len(data)-sumBytes], binary.LittleEndian.Uint32(data[len(data)-sumBytes:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return snapshot{}, fmt.Errorf("%w: checksum %08x, want %08x", errDamaged, got, sum)
	}
	if data[1] != snapshotVersion {
		return snapshot{}, fmt.Errorf("a snapshot in version %d: this build reads version %d", data[1], snapshotVersion)
	}
	r := reader{rest: body[2:]}
	s := snapshot{life: life{origin: binary.LittleEndian.Uint64(r.take(8)), epoch: r.uvarint()}}
	s.partition, s.seq, s.total, s.from = int(r.uvarint()), r.uvarint(), r.uvarint(), r.uvarint()
	s.state = r.take(r.uvarint())
	s.receipts = r.receipts()
	if r.failed || len(r.rest) > 0 {
		return snapshot{}, fmt.Errorf("%w: its checksum is right, its content is not", errDamaged)
	}
	return s, nil
}

func objectName(partition, slot int) string {
	return fmt.Sprintf("partition-%05d-%c", partition, 'a'+slot)
}

// fromKey is the object's metadata that tells which of two slots is newer.
const fromKey = "weir-from"

func (s *store) putSnapshot(ctx context.Context, snap snapshot, slot int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*askTimeout)
	defer cancel()
	return s.putObject(ctx, objectName(snap.partition, slot), snap.from, snap.encode())
}

func (s *store) putObject(ctx context.Context, name string, from uint64, data []byte) error {
	_, err := s.bucket.Put(ctx, jetstream.ObjectMeta{
		Name:     name,
		Metadata: map[string]string{fromKey: strconv.FormatUint(from, 10)},
	}, bytes.NewReader(data))
	return err
}

// listed is an object by its name and the position in its metadata.
type listed struct {
	slot int
	from uint64
}

// snapshots lists the objects of each partition, the newest first.
func (s *store) snapshots(ctx context.Context, partitions int) ([][]listed, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout) // a listing with a hole never ends
	defer cancel()
	list := make([][]listed, partitions)
	infos, err := s.bucket.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, fmt.Errorf("journal: list of snapshots: %w", err)
	}
	for _, info := range infos {
		var partition int
		var slot rune
		if _, err := fmt.Sscanf(info.Name, "partition-%05d-%c", &partition, &slot); err != nil || partition >= partitions || slot < 'a' || slot >= 'a'+slots {
			continue
		}
		from, _ := strconv.ParseUint(info.Metadata[fromKey], 10, 64) // 0, the oldest, if spoiled: the object itself decides
		l := listed{int(slot - 'a'), from}
		if have := list[partition]; len(have) > 0 && have[0].from < from {
			list[partition] = append([]listed{l}, have...)
		} else {
			list[partition] = append(have, l)
		}
	}
	return list, nil
}

func (s *store) getSnapshot(ctx context.Context, partition, slot int) (snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	data, err := s.bucket.GetBytes(ctx, objectName(partition, slot))
	if err != nil {
		return snapshot{}, err
	}
	snap, err := decodeSnapshot(data)
	if err == nil && snap.partition != partition {
		err = fmt.Errorf("%w: it is of partition %d", errDamaged, snap.partition)
	}
	return snap, err
}
