package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// Each partition has two slots for its snapshots, written in turn, so that a
// damaged one falls back to the one before. A slot is two subjects of the stream
// of snapshots: the snapshot's bytes in chunks, and after them one message that
// makes them count, version 1, numbers as unsigned varints:
//
//	byte 0     'E'
//	byte 1     version, 1
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
	endVersion = 1

	chunkBytes = 512 << 10
	slots      = 2
)

// listed is the snapshot in a slot, by the message that ends it.
type listed struct {
	partition, slot int
	epoch, from     uint64
	chunks, length  uint64
	sequence        uint64 // of that message
}

func slotName(partition, slot int) string {
	return fmt.Sprintf("%d%c", partition, 'a'+slot)
}

func chunkSubject(partition, slot int) string {
	return snapshotSubject + "." + slotName(partition, slot) + ".chunk"
}

func endSubject(partition, slot int) string {
	return snapshotSubject + "." + slotName(partition, slot) + ".end"
}

func (l listed) encode() []byte {
	b := []byte{endMagic, endVersion}
	for _, v := range []uint64{uint64(l.partition), uint64(l.slot), l.epoch, l.from, l.chunks, l.length} {
		b = binary.AppendUvarint(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeListed(data []byte) (listed, error) {
	r, err := openSealed(data, endMagic, endVersion, "end of a snapshot")
	if err != nil {
		return listed{}, err
	}
	l := listed{partition: int(r.uvarint()), slot: int(r.uvarint()), epoch: r.uvarint(), from: r.uvarint(), chunks: r.uvarint(), length: r.uvarint()}
	return l, r.end()
}

// putSnapshot writes a snapshot over what is in a slot. A crash meanwhile leaves
// the slot empty.
func (s *store) putSnapshot(ctx context.Context, snap snapshot, slot int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*askTimeout)
	defer cancel()
	data := snap.encode()
	end := listed{partition: snap.partition, slot: slot, epoch: snap.epoch, from: snap.from, length: uint64(len(data))}
	for _, subject := range []string{endSubject(snap.partition, slot), chunkSubject(snap.partition, slot)} {
		if err := s.at.Load().snapshots.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(data, chunkBytes) {
		if _, err := s.at.Load().js.Publish(ctx, chunkSubject(snap.partition, slot), chunk); err != nil {
			return err
		}
		end.chunks++
	}
	_, err := s.at.Load().js.Publish(ctx, endSubject(snap.partition, slot), end.encode())
	return err
}

// listSnapshots lists what is in the slots of each partition, the newest first.
// A slot whose end is damaged is a finding.
func (s *store) listSnapshots(ctx context.Context, partitions int) (lists [][]listed, findings []Finding, err error) {
	lists = make([][]listed, partitions)
	var mu sync.Mutex // guards findings
	err = inParallel(partitions, func(partition int) error {
		for slot := range slots {
			l, err := s.listSlot(ctx, partition, slot)
			switch {
			case err == nil:
				lists[partition] = append(lists[partition], l)
			case errors.Is(err, jetstream.ErrMsgNotFound):
			case ctx.Err() != nil:
				return context.Cause(ctx)
			default:
				mu.Lock()
				findings = append(findings, spoiledSnapshot(partition, slot, err))
				mu.Unlock()
			}
		}
		slices.SortFunc(lists[partition], func(a, b listed) int {
			return cmp.Or(cmp.Compare(b.from, a.from), cmp.Compare(b.epoch, a.epoch))
		})
		return nil
	})
	return lists, findings, err
}

func (s *store) listSlot(ctx context.Context, partition, slot int) (listed, error) {
	var sequence uint64
	var data []byte
	err := patiently(ctx, func(ctx context.Context) (err error) {
		sequence, data, err = s.at.Load().fromLeader(ctx, snapshotStream, wanted{LastOf: endSubject(partition, slot)})
		return err
	})
	if err != nil {
		return listed{}, err
	}
	l, err := decodeListed(data)
	if err == nil && (l.partition != partition || l.slot != slot || l.chunks >= sequence) {
		err = fmt.Errorf("%w: it is the end of another snapshot", errDamaged)
	}
	l.sequence = sequence
	return l, err
}

// getSnapshot reads and checks a snapshot.
func (s *store) getSnapshot(ctx context.Context, l listed) (snapshot, error) {
	var data bytes.Buffer
	for sequence := l.sequence - l.chunks; sequence < l.sequence; sequence++ {
		var chunk []byte
		err := patiently(ctx, func(ctx context.Context) (err error) {
			_, chunk, err = s.at.Load().fromLeader(ctx, snapshotStream, wanted{Sequence: sequence})
			return err
		})
		if err != nil {
			return snapshot{}, fmt.Errorf("message %d of the stream of snapshots: %w", sequence, err)
		}
		data.Write(chunk)
	}
	if uint64(data.Len()) != l.length {
		return snapshot{}, fmt.Errorf("%w: %d bytes in place of %d", errDamaged, data.Len(), l.length)
	}
	snap, err := decodeSnapshot(data.Bytes())
	if err == nil && (snap.partition != l.partition || snap.epoch != l.epoch || snap.from != l.from) {
		err = fmt.Errorf("%w: it is another snapshot", errDamaged)
	}
	return snap, err
}

// spoiledSnapshot is the finding of a snapshot that can't be used.
func spoiledSnapshot(partition, slot int, err error) Finding {
	return Finding{
		Where: "snapshot " + slotName(partition, slot), What: err.Error(),
		Cost: "none if the one before and the journal after it are sound", Harmless: true,
	}
}
