package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

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

	chunkBytes = 512 << 10
	slots      = 2
)

// listed is the snapshot in a slot, by the message that ends it.
type listed struct {
	partition, slot int
	epoch, from     uint64
	length          uint64
	chunks          []uint64 // their sequences
	sequence        uint64   // of that message
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
	for _, v := range []uint64{uint64(l.partition), uint64(l.slot), l.epoch, l.from, l.length, uint64(len(l.chunks))} {
		b = binary.AppendUvarint(b, v)
	}
	before := uint64(0)
	for _, sequence := range l.chunks {
		b = binary.AppendUvarint(b, sequence-before)
		before = sequence
	}
	return wire.Seal(b, 0)
}

func decodeListed(data []byte) (listed, error) {
	r, err := openSealed(data, endMagic, endVersion, "end of a snapshot")
	if err != nil {
		return listed{}, err
	}
	l := listed{partition: int(r.Uvarint()), slot: int(r.Uvarint()), epoch: r.Uvarint(), from: r.Uvarint(), length: r.Uvarint()}
	sequence := uint64(0)
	for range r.Count() {
		sequence += r.Uvarint()
		l.chunks = append(l.chunks, sequence)
	}
	return l, r.end()
}

// putSnapshot writes a snapshot over what is in a slot, if that has the known
// revision, its end's sequence; 0: whatever is there. It returns the new one. After
// an error the slot has what it had, or the new snapshot.
func (s *store) putSnapshot(ctx context.Context, snap snapshot, slot int, known uint64) (revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*askTimeout)
	defer cancel()
	chunkTo, endTo, at := chunkSubject(snap.partition, slot), endSubject(snap.partition, slot), s.at.Load()
	if known == 0 {
		switch sequence, data, err := at.fromLeader(ctx, snapshotStream, wanted{LastOf: endTo}); {
		case err == nil:
			if is, err := decodeListed(data); err == nil && is.from > snap.from {
				return 0, errNewerThere
			}
			known = sequence
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return 0, err
		}
	}
	data := snap.encode()
	end := listed{partition: snap.partition, slot: slot, epoch: snap.epoch, from: snap.from, length: uint64(len(data))}
	for chunk := range slices.Chunk(data, chunkBytes) {
		ack, err := at.js.Publish(ctx, chunkTo, chunk)
		if err != nil {
			return 0, err
		}
		end.chunks = append(end.chunks, ack.Sequence)
	}
	ack, err := at.js.Publish(ctx, endTo, end.encode(), jetstream.WithExpectLastSequencePerSubject(known))
	if err != nil {
		return 0, err
	}
	// What was there before: if it stays, the next snapshot in the slot removes it.
	return ack.Sequence, errors.Join(
		at.snapshots.Purge(ctx, jetstream.WithPurgeSubject(endTo), jetstream.WithPurgeSequence(ack.Sequence)),
		at.snapshots.Purge(ctx, jetstream.WithPurgeSubject(chunkTo), jetstream.WithPurgeSequence(end.chunks[0])),
	)
}

// errNewerThere is why a snapshot was not stored: another node, further on, was quicker.
var errNewerThere = errors.New("the slot has a newer snapshot")

// listSnapshots lists what is in the slots of each partition, the newest first.
// A slot whose end is damaged is a finding.
func (s *store) listSnapshots(ctx context.Context, partitions int) (lists [][]listed, findings []Finding, err error) {
	lists = make([][]listed, partitions)
	var mu sync.Mutex // guards findings
	err = inParallel(partitions, func(partition int) error {
		list, spoiled, err := s.slotsOf(ctx, partition)
		lists[partition] = list
		mu.Lock()
		findings = append(findings, spoiled...)
		mu.Unlock()
		return err
	})
	return lists, findings, err
}

// slotsOf lists what is in the slots of one partition, as listSnapshots does.
func (s *store) slotsOf(ctx context.Context, partition int) (list []listed, findings []Finding, err error) {
	for slot := range slots {
		l, err := s.listSlot(ctx, partition, slot)
		switch {
		case err == nil:
			list = append(list, l)
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case nobody(err):
			return nil, nil, err
		default:
			findings = append(findings, spoiledSnapshot(partition, slot, err))
		}
	}
	slices.SortFunc(list, func(a, b listed) int {
		return cmp.Or(cmp.Compare(b.from, a.from), cmp.Compare(b.epoch, a.epoch))
	})
	return list, findings, nil
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
	if err == nil && (l.partition != partition || l.slot != slot) {
		err = fmt.Errorf("%w: it is the end of another snapshot", errDamaged)
	}
	l.sequence = sequence
	return l, err
}

// getSnapshot reads and checks a snapshot.
func (s *store) getSnapshot(ctx context.Context, l listed) (snapshot, error) {
	var data bytes.Buffer
	for _, sequence := range l.chunks {
		var chunk []byte
		err := patiently(ctx, func(ctx context.Context) (err error) {
			at := s.at.Load()
			_, chunk, err = at.fromLeader(ctx, snapshotStream, wanted{Sequence: sequence})
			if errors.Is(err, jetstream.ErrMsgNotFound) { // the leader's disk may be damaged, and this node's sound
				var msg *jetstream.RawStreamMsg
				if msg, err = at.snapshots.GetMsg(ctx, sequence); err == nil {
					chunk = msg.Data
				}
			}
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
